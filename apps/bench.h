// `tessera bench`: measurements, their comparison, and one look for all of them.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace tessera {

// The verb with all of its own. Flags live in what is returned, as long as the app.
class BenchCommand {
 public:
  explicit BenchCommand(CLI::App& app);
  ~BenchCommand();

  bool is_asked_for() const;
  int run();  // exit status: 0 done, 1 failed (or, for compare, worse), 2 wrong usage

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
