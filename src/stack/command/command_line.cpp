#include "stack/command/command_line.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "stack/command/session.h"
#include "stack/command/verbs.h"
#include "stack/object/next_command.h"
#include "usage/completion.h"
#include "usage/man_page.h"

namespace tessera::stack {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  tessera-stack init --repo vllm.git --base v0.15.1 --tree docker-save:kimi.tar:/opt/vllm\n"
    "  tessera-stack suggest && tessera-stack plan check\n"
    "  tessera-stack split && tessera-stack integrate && tessera-stack verify\n"
    "  tessera-stack rebase --onto origin/main\n"
    "\n"
    "Exit codes: 0 done and true, 1 done and the answer is no, 2 wrong usage, 3 bad input, 4 conflicts to "
    "solve, 5 a bug of ours.\n";

// All verbs with their flags; `chosen` becomes what the parsed line asks for.
class Verbs {
 public:
  using Run = std::function<Result<Exit>(const Session&)>;

  explicit Verbs(CLI::App& app) : app_(app) {
    app_.require_subcommand(1);
    app_.footer(kExamples);
    app_.set_version_flag("--version", std::string("tessera-stack ") + kVersion);
    app_.fallthrough();
    app_.add_option("--plan", plan, "The plan (default: stack.toml, here or in a folder above)")
        ->type_name("FILE");
    app_.add_flag("--json", json, "One JSON document on stdout, schema 1, for machines");
    app_.add_flag("--dry-run", dry_run, "Say what would change, change nothing");
    app_.add_flag("--quiet,-q", quiet, "Only errors, warnings and the exit code");
    reading();
    planning();
    writing();
    moving();
    publishing();
    history();
  }

  std::string plan;
  bool json = false;
  bool dry_run = false;
  bool quiet = false;
  Run chosen;

 private:
  CLI::App* verb(CLI::App& parent, const std::string& name, const std::string& about, Run run,
                 const std::string& examples = "") {
    CLI::App* sub = parent.add_subcommand(name, about);
    sub->fallthrough();
    if (!examples.empty()) sub->footer("Examples:\n" + examples);
    sub->callback([this, run = std::move(run)] { chosen = run; });
    return sub;
  }

  void reading() {
    CLI::App* init = verb(
        app_, "init", "Read base and tree, write a plan with everything unassigned",
        [this](const Session& s) { return run_init(init_, s); },
        "  tessera-stack init --repo . --base v1.2 --tree dir:/opt/app\n  tessera-stack init --refresh\n");
    init->add_option("--repo", init_.repository, "Repository with the base's history")->type_name("PATH");
    init->add_option("--base", init_.base, "Commit from which the tree diverged: id, tag or branch")
        ->type_name("COMMIT");
    init->add_option(
            "--tree", init_.tree,
            "git:REPO@REV[:path], dir:PATH, tar:FILE[:path], docker-save:FILE[:path], oci:DIR[@ref][:path]")
        ->type_name("SOURCE");
    init->add_option("--name", init_.name, "Name of the plan (default: the folder's)");
    init->add_option("--prefix", init_.prefix, "Branches are <prefix>/<bucket> (default: tessera/<name>)");
    init->add_flag("--refresh", init_.refresh, "Read the plan's tree again, when the repository has lost it");
    init->add_flag("--force", init_.force, "Overwrite a plan that exists");
    init->callback([this, init] {
      const bool complete = !init_.repository.empty() && !init_.base.empty() && !init_.tree.empty();
      if (!init_.refresh && !complete)
        throw CLI::RequiredError("init: --repo, --base and --tree, or --refresh");
      (void)init;
      chosen = [this](const Session& s) { return run_init(init_, s); };
    });
    CLI::App* list = verb(
        app_, "list", "All atoms: id, lines, kind, bucket, place, first line",
        [this](const Session& s) { return run_list(list_, s); },
        "  tessera-stack list --unassigned\n  tessera-stack list vllm/v1 --bucket timers\n");
    list->add_option("paths", list_.paths, "Files, folders or globs")->type_name("PATH");
    list->add_option("--bucket", list_.bucket, "Only atoms of this bucket");
    list->add_flag("--unassigned", list_.unassigned, "Only atoms that no bucket claims");
    CLI::App* show = verb(
        app_, "show", "Atoms as differences, with sections, owners and layer",
        [this](const Session& s) {
          return patches_.empty() ? run_show(show_, s) : run_show_patches(patches_, s);
        },
        "  tessera-stack show h:3fa9 --context 10\n");
    show->add_option("ids", show_.ids, "Atom ids or unique prefixes of them")->type_name("ID");
    show->add_option("--patch", patches_,
                     "Patch files instead: do they fit the tree, where, are they in it already")
        ->type_name("FILE");
    show->add_option("--context", show_.context, "Unchanged lines around (default 3)")
        ->check(CLI::Range(0, 10000));
    CLI::App* doctor = verb(
        app_, "doctor", "Look for the true base, lost blobs, clashing names and other trouble",
        [this](const Session& s) { return run_doctor(doctor_, s); },
        "  tessera-stack doctor\n  tessera-stack doctor --repo vllm.git --tree dir:/opt/vllm --branch "
        "main\n");
    doctor->add_option("--repo", doctor_.repository, "Repository to search, without a plan")
        ->type_name("PATH");
    doctor->add_option("--tree", doctor_.tree, "Tree to place, without a plan")->type_name("SOURCE");
    doctor->add_option("--branch", doctor_.branches, "Search the history of these only")->type_name("NAME");
    doctor->add_flag(
        "--every-commit", doctor_.every_commit,
        "Compare with every commit of these histories, not with samples first (a minute for 20,000)");
  }

  void planning() {
    CLI::App* suggest = verb(
        app_, "suggest", "Propose buckets for what is unassigned; never claims to be right",
        [this](const Session& s) { return run_suggest(suggest_, s); },
        "  tessera-stack suggest --print\n  tessera-stack suggest --from-commits origin/main..fork\n");
    suggest
        ->add_option("--from-commits", suggest_.from_commits,
                     "Take buckets from these commits, by who last wrote each line")
        ->type_name("A..B");
    suggest->add_flag("--print", suggest_.print, "Print the proposal, leave the plan");
    CLI::App* plan_verb = app_.add_subcommand("plan", "Look after the plan");
    plan_verb->require_subcommand(1);
    plan_verb->fallthrough();
    verb(*plan_verb, "check", "Is the plan sound, and is everything assigned?", run_plan_check);
    verb(*plan_verb, "pin", "Write the ids of all claimed atoms beside their claims", run_plan_pin);
    verb(*plan_verb, "loosen", "Remove these ids again", run_plan_loosen);
    CLI::App* graph = verb(
        *plan_verb, "graph", "Which topic needs which, and why",
        [this](const Session& s) { return run_plan_graph(format_, s); },
        "  tessera-stack plan graph --format dot | dot -Tsvg > stack.svg\n");
    graph->add_option("--format", format_, "text, dot or json")
        ->check(CLI::IsMember({"text", "dot", "json"}));
  }

  void writing() {
    CLI::App* split = verb(
        app_, "split", "Compose the topic branches",
        [this](const Session& s) { return run_split(split_, s); },
        "  tessera-stack split --dry-run\n  tessera-stack split --check\n");
    split->add_flag("--force", split_.force, "Overwrite branches that somebody else moved");
    split->add_flag("--check", split_.check, "Run each bucket's check commands in a temporary checkout");
    CLI::App* integrate =
        verb(app_, "integrate", "Compose the branch with all topics and prove that it is the tree",
             [this](const Session& s) { return run_integrate(split_, s); });
    integrate->add_flag("--force", split_.force, "Overwrite the branch when somebody else moved it");
    CLI::App* verify = verb(
        app_, "verify", "Compare integration and tree path by path, check expectations",
        [this](const Session& s) { return run_verify(verify_, s); },
        "  tessera-stack verify\n  tessera-stack verify --tree dir:/opt/vllm --allow blank,comment\n");
    verify->add_option("--tree", verify_.tree, "Read this tree instead of the frozen one")
        ->type_name("SOURCE");
    verify->add_option("--allow", verify_.allow, "Mild classes that pass: mode, eol, blank, comment")
        ->delimiter(',')
        ->check(CLI::IsMember({"mode", "eol", "blank", "comment"}));
  }

  void moving() {
    CLI::App* rebase = verb(
        app_, "rebase", "Move the topics to another target",
        [this](const Session& s) { return run_rebase(rebase_, s); },
        "  tessera-stack rebase --onto origin/main --dry-run\n  tessera-stack rebase --onto origin/main "
        "--resolve\n");
    rebase->add_option("--onto", rebase_.onto, "The new target")->type_name("COMMIT")->required();
    rebase->add_flag("--resolve", rebase_.resolve, "Write conflicts to files; record those that are solved");
    rebase->add_flag("--force", rebase_.force, "Overwrite branches that somebody else moved");
    CLI::App* upstream = verb(
        app_, "upstream", "What of the difference is in another commit already",
        [this](const Session& s) { return run_upstream(upstream_, s); },
        "  tessera-stack upstream --at origin/main --from-commits v0.15.1..fork\n");
    upstream->add_option("--at", upstream_.at, "Where to look")->type_name("COMMIT")->required();
    upstream
        ->add_option("--from-commits", upstream_.from_commits,
                     "The fork's own commits: by patch-id, pull request, trailers; pairs that cancel out")
        ->type_name("A..B");
    CLI::App* absorb = verb(
        app_, "absorb", "Bring the plan to a tree that has changed since",
        [this](const Session& s) { return run_absorb(absorb_, s); },
        "  tessera-stack absorb --tree dir:/opt/vllm --print\n");
    absorb
        ->add_option("--tree", absorb_.tree, "The tree as it is now (default: the plan's source, read again)")
        ->type_name("SOURCE");
    absorb->add_flag("--print", absorb_.print, "Print the proposals, leave the plan");
  }

  void publishing() {
    CLI::App* report = verb(
        app_, "report", "The document for other people: verdict, topics, parity, what is left to decide",
        [this](const Session& s) { return run_report(report_, s); },
        "  tessera-stack report --output stack.md\n  tessera-stack report --html --output stack.html\n");
    report->add_flag("--html", report_.html, "One self-contained page instead of Markdown");
    report->add_flag("--check", report_.check, "Run each bucket's check commands in a temporary checkout");
    report->add_option("--output,-o", report_.output, "Where to write it (default: stdout)")
        ->type_name("FILE");
    CLI::App* pr = verb(
        app_, "pr", "Pull request texts as files; with --send, drafts on GitHub",
        [this](const Session& s) { return run_pull_requests(pr_, s); },
        "  tessera-stack pr\n  GITHUB_TOKEN=... tessera-stack pr --send --to vllm-project/vllm --fork me\n");
    pr->add_option("--bucket", pr_.bucket, "Only this topic");
    pr->add_option("--output,-o", pr_.output, "Folder for the texts (default: pr/ beside the plan)")
        ->type_name("DIR");
    pr->add_option("--mode", pr_.mode,
                   "independent: topics without unmerged needs; cumulative: with the commits below; "
                   "consolidated: one for all upstream topics, on a branch of its own")
        ->check(CLI::IsMember({"independent", "cumulative", "consolidated"}));
    pr->add_option("--title", pr_.title, "Title of the consolidated one (default: from the plan's name)");
    pr->add_flag("--check", pr_.check, "Run each bucket's check commands for the test results");
    pr->add_flag("--force", pr_.force, "Overwrite the consolidated branch when somebody else moved it");
    CLI::Option* send =
        pr->add_flag("--send", pr_.send, "Open or refresh drafts; the token comes from GITHUB_TOKEN");
    pr->add_option("--to", pr_.to, "Target repository")->type_name("OWNER/NAME")->needs(send);
    pr->add_option("--fork", pr_.fork, "Owner of the fork that holds the branches")
        ->type_name("OWNER")
        ->needs(send);
    pr->add_option("--base", pr_.onto, "Branch of the target repository (default: main)")->needs(send);
    pr->add_option("--api", pr_.api, "Address of another GitHub")->type_name("URL")->needs(send);
    CLI::App* out = verb(
        app_, "export", "The stack as mails for git am, as a quilt series, or as a git bundle",
        [this](const Session& s) { return run_export(export_, s); },
        "  tessera-stack export --format mail --output patches\n");
    out->add_option("--format", export_.format, "mail, quilt or bundle")
        ->check(CLI::IsMember({"mail", "quilt", "bundle"}));
    out->add_option("--output,-o", export_.output, "Folder, or file for a bundle")->type_name("PATH");
  }

  void history() {
    verb(app_, "log", "Operations so far", run_log);
    CLI::App* undo = verb(app_, "undo", "Take the newest operation back: refs and plan",
                          [this](const Session& s) { return run_undo(force_undo_, s); });
    undo->add_flag("--force", force_undo_, "Also when refs or plan were changed since");
    CLI::App* completion = verb(
        app_, "completion", "Shell completion, to be sourced",
        [this](const Session& s) -> Result<Exit> {
          s.out << *completion_script("tessera-stack", shell_);  // the name was checked
          return Exit::kTrue;
        },
        "  source <(tessera-stack completion bash)\n");
    verb(
        app_, "man", "This help as a manual page",
        [this](const Session& s) -> Result<Exit> {
          s.out << man_page(app_);
          return Exit::kTrue;
        },
        "  tessera-stack man | man -l -\n");
    completion->add_option("shell", shell_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  }

  CLI::App& app_;
  InitOptions init_;
  ListOptions list_;
  ShowOptions show_;
  SuggestOptions suggest_;
  SplitOptions split_;
  VerifyOptions verify_;
  RebaseOptions rebase_;
  AbsorbOptions absorb_;
  DoctorOptions doctor_;
  ReportOptions report_;
  PullRequestOptions pr_;
  ExportOptions export_;
  std::vector<std::string> patches_;
  UpstreamOptions upstream_;
  std::string format_ = "text";
  std::string shell_;
  bool force_undo_ = false;
};

// "plan check"
std::string chosen_verb(const CLI::App& app) {
  std::string verb;
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    verb += (verb.empty() ? "" : " ") + at->get_name();
  }
  return verb;
}

std::string typed(const std::vector<std::string>& arguments) {
  std::string out = "tessera-stack";
  for (const std::string& argument : arguments) out += " " + shell_quoted(argument);
  return out;
}

}  // namespace

int run_command_line(const CommandLineInputs& inputs) {
  CLI::App app(
      "Splits a running tree into topic branches for upstream, puts them together again, and proves that "
      "nothing changed.",
      "tessera-stack");
  Verbs verbs(app);
  std::vector<std::string> arguments(inputs.arguments.rbegin(),
                                     inputs.arguments.rend());  // CLI11 takes them last first
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& stop) {  // CLI11's only way to report, and to print help
    const int code = app.exit(stop, inputs.out, inputs.err);
    return code == 0 ? 0 : static_cast<int>(Exit::kUsage);
  }
  const bool shows_progress = inputs.err_is_terminal && !verbs.quiet && inputs.seconds;
  const Session session{
      .out = inputs.out,
      .err = inputs.err,
      .plan = verbs.plan,
      .verb = chosen_verb(app),
      .typed = typed(inputs.arguments),
      .json = verbs.json,
      .dry_run = verbs.dry_run,
      .quiet = verbs.quiet,
      .progress_line = shows_progress ? std::make_shared<ProgressLine>(inputs.err, inputs.seconds) : nullptr,
      .now = inputs.now,
      .wait = inputs.wait,
      .github_token = inputs.github_token};
  const Result<Exit> done = verbs.chosen(session);
  return static_cast<int>(done ? *done : report(session, done.error()));
}

}  // namespace tessera::stack
