#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "usage/completion.h"
#include "usage/man_page.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

// What bash would offer for `line`, whose last word is being typed, in a folder without files (whose names it
// would offer too); the program is a shell function that prints the help of a real CLI11 app.
std::string offered(const std::string& line) {
  CLI::App app("Does things.", "prog-x");
  bool quiet = false;
  std::string value;
  app.add_flag("--quiet", quiet, "Say less");
  CLI::App* serve = app.add_subcommand("serve", "Serve");
  serve->add_option("--max-model-len", value, "Longest");
  serve->add_option("--foreign", value, "Hidden")->group("");
  CLI::App* plan = app.add_subcommand("plan", "Plan");
  plan->add_subcommand("check", "Check");
  const std::filesystem::path script_file =
      std::filesystem::path(testing::TempDir()) / ("completion_" + std::to_string(getpid()));
  const std::filesystem::path folder = script_file.string() + ".cwd";
  std::filesystem::create_directory(folder);
  {
    std::ofstream script(script_file);
    script << "prog-x() {\ncase \"$*\" in\n--help) cat <<'E'\n"
           << app.help() << "\nE\n;;\n'serve --help') cat <<'E'\n"
           << serve->help() << "\nE\n;;\n'plan --help') cat <<'E'\n"
           << plan->help() << "\nE\n;;\n*) return 1 ;;\nesac\n}\n"
           << *completion_script("prog-x", "bash") << "COMP_WORDS=(" << line
           << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_prog_x\necho \"${COMPREPLY[*]}\"\n";
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen(("cd " + folder.string() + " && bash " + script_file.string()).c_str(), "r"), pclose);
  std::string out;
  std::array<char, 256> buffer{};
  while (fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr) out += buffer.data();
  std::filesystem::remove(script_file);
  std::filesystem::remove(folder);
  return out;
}

TEST(Completion, OffersVerbsAndFlagsOfTheVerb) {
  EXPECT_EQ(offered("prog-x se"), "serve\n");
  EXPECT_EQ(offered("prog-x serve --max"), "--max-model-len\n");
  EXPECT_EQ(offered("prog-x plan ch"), "check\n");
  EXPECT_EQ(offered("prog-x --qu"), "--quiet\n");
  EXPECT_EQ(offered("prog-x --quiet serve --max"), "--max-model-len\n");
}

TEST(Completion, AValueAfterAVerbIsNotTakenForAVerb) {
  EXPECT_EQ(offered("prog-x serve models/tiny --max"), "--max-model-len\n");
}

TEST(Completion, KnowsThreeShellsAndNoOther) {
  EXPECT_THAT(*completion_script("tessera", "zsh"), HasSubstr("bashcompinit"));
  EXPECT_THAT(*completion_script("tessera-stack", "fish"),
              HasSubstr("complete -c tessera-stack -a '(__tessera_stack_verbs)'"));
  EXPECT_EQ(completion_script("tessera", "tcsh"), std::nullopt);
}

TEST(ManPage, HoldsEveryVerbAndFlagThatHelpHolds) {
  CLI::App app("Does things.", "prog");
  app.footer("Examples:\n  prog serve -x\n.hidden\n");
  CLI::App* serve = app.add_subcommand("serve", "Serve a model");
  int port = 8000;
  std::string value;
  serve->add_option("--port,-p", port, "Where to listen")->capture_default_str();
  serve->add_option("--foreign", value, "Hidden")->group("");
  serve->footer("\nExample:\n  prog serve --port 1");
  const std::string page = man_page(app);
  EXPECT_THAT(page, HasSubstr(".TH PROG 1\n.SH NAME\nprog \\- Does things.\n"));
  EXPECT_THAT(page, HasSubstr(".SS serve\nServe a model\n"));
  EXPECT_THAT(page, HasSubstr("\\-\\-port"));
  EXPECT_THAT(page, HasSubstr("Where to listen (default: 8000)\n"));
  EXPECT_THAT(page, HasSubstr(".nf\nExample:\n  prog serve \\-\\-port 1\n.fi\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.hidden\n"));  // text, not a request
  EXPECT_THAT(page, Not(HasSubstr("foreign")));
}

}  // namespace
}  // namespace tessera
