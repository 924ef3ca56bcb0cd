#include "stack/command/verbs.h"
namespace tessera::stack {
Result<Exit> run_verify(const VerifyOptions&, const Session&) { return Exit::kBug; }
Result<Exit> run_suggest(const SuggestOptions&, const Session&) { return Exit::kBug; }
Result<Exit> run_rebase(const RebaseOptions&, const Session&) { return Exit::kBug; }
Result<Exit> run_upstream(const std::string&, const Session&) { return Exit::kBug; }
Result<Exit> run_absorb(const AbsorbOptions&, const Session&) { return Exit::kBug; }
Result<Exit> run_doctor(const DoctorOptions&, const Session&) { return Exit::kBug; }
}  // namespace tessera::stack
