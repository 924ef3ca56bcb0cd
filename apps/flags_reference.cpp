#include "flags_reference.h"

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "serve_flags.h"
#include "vllm_flags.h"

namespace tessera {
namespace {

// Names as typed: "--model" for an option that is also positional, every spelling of a flag.
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "`--" : ", `--") + name + "`";
  return names;
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string_view use_of(const VllmFlag& flag) {
  switch (flag.use) {
    case FlagUse::kNoMeaning:
      return "accepted, with a note";
    case FlagUse::kOnlyDefault:
      return "accepted with one value";
    case FlagUse::kRefused:
      return "refused";
  }
  return "";
}

}  // namespace

std::string flags_reference() {
  ServeFlags flags;
  CLI::App app;
  declare_server_flags(app, flags);
  declare_engine_flags(app, flags);
  std::string page =
      "# Flags of `tessera serve`\n\n"
      "Spellings are vLLM's; `--max_model_len` works as well as `--max-model-len`, and `-tp`, `-pp`, `-dcp`, "
      "`-q` are known.\n"
      "`tessera generate` takes the engine's flags. The page is written by the program (`TESSERA_REWRITE=1 "
      "cli_test`).\n";
  for (const std::string& group : app.get_groups()) {
    if (group.empty() || group == "Options") continue;
    page += "\n## " + group + "\n\n| flag | meaning | default |\n|---|---|---|\n";
    for (const CLI::Option* option :
         app.get_options([&](const CLI::Option* o) { return o->get_group() == group; })) {
      page += "| " + names_of(*option) + " | " + escaped(option->get_description()) + " | " +
              (option->get_default_str().empty() ? "" : "`" + option->get_default_str() + "`") + " |\n";
    }
  }
  page +=
      "\n## vLLM's other flags\n\n"
      "A launch line written for vLLM can stay as it is: flags without a meaning here are accepted and a "
      "note in the log says why;\n"
      "flags that would change answers are refused by name. An unknown flag is an error that names the "
      "nearest known one.\n\n"
      "| flag | here | because |\n|---|---|---|\n";
  for (const VllmFlag& flag : vllm_flags()) {
    page += "| `" + std::string(flag.name) + "` | " + std::string(use_of(flag)) +
            (flag.use == FlagUse::kOnlyDefault ? ": `" + std::string(flag.only) + "`" : "") + " | " +
            escaped(std::string(flag.reason)) + " |\n";
  }
  page +=
      "\n## Environment\n\n"
      "| variable | meaning |\n|---|---|\n"
      "| `TESSERA_API_KEY`, `VLLM_API_KEY` | one more key that clients may send |\n"
      "| `VLLM_LOG_STATS_INTERVAL` | as `--log-stats-interval` |\n";
  return page;
}

}  // namespace tessera
