// Bad input, as the outside world brings it: each is one sentence that ends with the next command to type,
// the command exists, and nothing of anybody else's is touched.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <ostream>

#include "stack/command/scene.h"
#include "stack/object/digest.h"
#include "stack/source/test_archive.h"

namespace tessera::stack {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A base and its successor on main, a tree beside them, a plan with two buckets over all of it.
struct World : Scene {
  ScratchFolder folder;

  World() {
    git.write("a.py", "one\n\n\n\ntwo\n");
    git.write("b.py", "b = 1\n");
    commit_base();
    folder.write("a.py", "ONE\n\n\n\nTWO\n");
    folder.write("b.py", "b = 2\n");
  }
  Answer init(const std::string& repository, const std::string& at, const std::string& source) const {
    return run({"init", "--repo", repository, "--base", at, "--tree", source, "--name", "demo"});
  }
  std::string source() const { return "dir:" + folder.path().string(); }
  void planned(const std::string& buckets =
                   "\n[[bucket]]\nname = \"a\"\ntake = [\"a.py\"]\n\n[[bucket]]\nname = "
                   "\"b\"\ntake = [\"b.py\"]\n") const {
    const Answer answer = init(git.path(), base, source());
    ASSERT_EQ(answer.code, 0) << answer.err;
    add(buckets);
  }
  void split() const {
    planned();
    ASSERT_EQ(run({"split"}).code, 0);
  }
  void edit_plan(const std::string& from, const std::string& to) const {
    std::string text = work.read("stack.toml");
    ASSERT_NE(text.find(from), std::string::npos) << text;
    std::ofstream(plan()) << text.replace(text.find(from), from.size(), to);
  }
  std::string blob_file(const std::string& revision) const {
    const std::string id = git.git("rev-parse " + revision);
    return git / (".git/objects/" + id.substr(0, 2) + "/" + id.substr(2));
  }
  // An image in one file, written by `files`.
  Answer init_image(const std::string& scheme, const std::string& bytes) const {
    work.write("image.tar", bytes);
    return init(git.path(), base, scheme + ":" + (work / "image.tar") + ":/opt");
  }
};

const TestImage kImage{.layers = {make_tar({file("opt/a.py", "ONE\n")})}};

std::string oci_archive(const std::function<void(std::map<std::string, std::string>&)>& damage) {
  std::map<std::string, std::string> files;
  const auto plain = [](const std::string& layer) { return layer; };
  const std::string manifest = add_oci_manifest(files, kImage, plain, kLayerType);
  files[blob_path(manifest)] = manifest;
  finish_oci(files, descriptor(kManifestType, manifest));
  damage(files);
  return tar_of(files);
}

struct Case {
  const char* name;
  int code;          // of the command
  const char* says;  // part of the sentence
  const char* next;  // how the next command begins; "" when it is what was typed
  std::function<Answer(const World&)> typed;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case> kCases = {
    // A wrong base.
    {"NoSuchBase", 3, "No commit is called 'v9'", "git -C ",
     [](const World& w) { return w.init(w.git.path(), "v9", w.source()); }},
    {"BaseOfAnotherRepository", 3, "No commit is called '1234567890", " fetch origin 1234567890",
     [](const World& w) {
       return w.init(w.git.path(), "1234567890123456789012345678901234567890", w.source());
     }},
    {"BaseIsNoCommit", 3, "not a commit", "git -C ",
     [](const World& w) { return w.init(w.git.path(), w.base + ":a.py", w.source()); }},
    {"BaseIsFarFromTheTree", 0, "the base is probably another commit", "tessera-stack --plan ",
     [](const World& w) {
       for (int i = 0; i < 60; ++i) w.folder.write("new/" + std::to_string(i), "x\n");
       return w.init(w.git.path(), w.base, w.source());
     }},
    {"BaseOfThePlanIsGone", 3, "is not in this repository", "git -C ",
     [](const World& w) {
       w.planned();
       w.edit_plan("commit = \"" + w.base, "commit = \"" + std::string(40, '1'));
       return w.run({"list"});
     }},
    {"RepositoryIsNone", 3, "could not find repository", "git -C ",
     [](const World& w) { return w.init(w.folder.path().string(), "HEAD", w.source()); }},
    {"RepositoryIsNowhere", 3, "nowhere", "git clone --bare URL ",
     [](const World& w) { return w.init(w.work / "nowhere", "HEAD", w.source()); }},
    {"PlanIsNowhere", 3, "There is no such plan", "tessera-stack --plan ",
     [](const World& w) { return w.run({"list"}); }},
    {"PlanIsThereAlready", 3, "There is a plan already", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       return w.init(w.git.path(), w.base, w.source());
     }},
    // A changed tree, a stale plan.
    {"TreeChangedSinceInit", 3, "and the plan was made for sha256:", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       w.folder.write("b.py", "b = 3\n");
       w.git.git("update-ref -d refs/tessera-stack/demo/tree");
       return w.run({"init", "--refresh"});
     }},
    {"FrozenTreeIsLost", 3, "has to be read again", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       w.git.git("update-ref -d refs/tessera-stack/demo/tree");
       return w.run({"list"});
     }},
    {"FrozenTreeIsAnother", 3, "The plan was made for the tree", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       w.edit_plan("digest  = \"sha256:", "digest  = \"sha256:0");
       return w.run({"list"});
     }},
    {"ListingIsStale", 0, "fingerprint is of another listing", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       w.edit_plan("\"myers\"", "\"patience\"");
       return w.run({"plan", "check"});
     }},
    {"PlanIsNoToml", 3, "stack.toml:", "tessera-stack --plan ",
     [](const World& w) {
       w.planned("[[bucket\n");
       return w.run({"split"});
     }},
    {"PlanHasAnUnknownKey", 3, "stack.toml:", "tessera-stack --plan ",
     [](const World& w) {
       w.planned("[[bucket]]\nname = \"x\"\ntaek = []\n");
       return w.run({"split"});
     }},
    // Ids and claims.
    {"NoSuchAtom", 3, "No atom has this id", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       return w.run({"show", "h:0000000000000000"});
     }},
    {"IdIsTooShort", 3, "too short; it could be h:", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       const std::string id = w.run({"list", "--json"}).json()["atoms"][0]["id"];
       return w.run({"show", "h:" + id.substr(0, 1)});
     }},
    {"ClaimMatchesNothing", 3, "The claim no/such matches no atom: this path does not differ",
     "tessera-stack --plan ",
     [](const World& w) {
       w.planned("[[bucket]]\nname = \"x\"\ntake = [\"no/such\"]\n");
       return w.run({"plan", "check"});
     }},
    {"ClaimMatchesNothingOfItsFile", 3, "the path differs elsewhere", "tessera-stack --plan ",
     [](const World& w) {
       w.planned("[[bucket]]\nname = \"x\"\ntake = [\"a.py#L3\"]\n");
       return w.run({"split"});
     }},
    {"TwoClaimsOnOneAtom", 3, "Two buckets claim h:", "tessera-stack --plan ",
     [](const World& w) {
       w.planned(
           "[[bucket]]\nname = \"x\"\ntake = [\"b.py\"]\n[[bucket]]\nname = \"y\"\ntake = [\"b.py\"]\n");
       return w.run({"plan", "check"});
     }},
    {"TopicsNeedEachOther", 3, "These topics need each other", "tessera-stack --plan ",
     [](const World& w) {
       w.planned(
           "[[bucket]]\nname = \"x\"\ntake = [\"a.py\"]\nneeds = [\"y\"]\n[[bucket]]\nname = \"y\"\ntake = "
           "[\"b.py\"]\nneeds = [\"x\"]\n");
       return w.run({"split"});
     }},
    {"NoSuchBucket", 3, "No bucket is called 'zz'", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       return w.run({"list", "--bucket", "zz"});
     }},
    // A missing blob: of a path that differs, it is said and the rest goes on; of the plan's record, it ends
    // the run.
    {"BlobIsMissing", 1, "unreadable: b.py", "git -C ",
     [](const World& w) {
       std::filesystem::remove(w.blob_file(w.base + ":b.py"));
       return w.init(w.git.path(), w.base, w.source());
     }},
    {"TreeObjectIsMissing", 3, "is not in this repository", "git -C ",
     [](const World& w) {
       std::filesystem::remove(w.blob_file(w.base + "^{tree}"));
       return w.init(w.git.path(), w.base, w.source());
     }},
    // Refs that somebody moved.
    {"BranchMoved", 4, "our last run left it at", "tessera-stack --plan ",
     [](const World& w) {
       w.split();
       w.git.git("branch -f tessera/demo/a main");
       w.edit_plan("take = [\"b.py\"]", "take = []");
       w.edit_plan("take = [\"a.py\"]", "take = [\"a.py\", \"b.py\"]");
       return w.run({"split"});
     }},
    {"BranchIsSomebodyElses", 4, "is not ours", "git -C ",
     [](const World& w) {
       w.planned();
       w.git.git("branch tessera/demo/a main");
       return w.run({"split"});
     }},
    {"BranchIsCheckedOut", 4, "is checked out", "git -C ",
     [](const World& w) {
       w.split();
       w.git.git("checkout -q -f tessera/demo/a");
       w.edit_plan("take = [\"b.py\"]", "take = []");
       w.edit_plan("take = [\"a.py\"]", "take = [\"a.py\", \"b.py\"]");
       return w.run({"split"});
     }},
    {"RefMovedBeforeUndo", 4, "This ref was moved after operation 1 (split)", "tessera-stack --plan ",
     [](const World& w) {
       w.split();
       w.git.git("branch -f tessera/demo/a main");
       return w.run({"undo"});
     }},
    {"NothingToUndo", 3, "nothing to undo", "tessera-stack --plan ",
     [](const World& w) {
       w.planned();
       return w.run({"undo"});
     }},
    {"NothingToVerify", 3, "no integration branch yet", "tessera-stack --plan ",
     [](const World& w) {
       w.split();
       return w.run({"verify"});
     }},
    // Archives.
    {"ArchiveIsNowhere", 3, "nowhere.tar", "",
     [](const World& w) { return w.init(w.git.path(), w.base, "docker-save:" + (w.work / "nowhere.tar")); }},
    {"SourceHasNoPrefix", 3, "A source is written", "tessera-stack --plan ",
     [](const World& w) { return w.init(w.git.path(), w.base, "imaginary:x"); }},
    {"ArchiveHoldsNoImage", 3, "holds no image", "",
     [](const World& w) { return w.init_image("docker-save", make_tar({file("opt/a.py", "x\n")})); }},
    {"ArchiveIsTruncated", 3, "image.tar", "docker save -o ",
     [](const World& w) {
       const std::string whole =
           tar_of({{"repositories", R"({"a":{"b":"c"}})"}, {"c/layer.tar", kImage.layers[0]}});
       return w.init_image("docker-save", whole.substr(0, 700));
     }},
    {"TarIsTruncated", 3, "image.tar", "docker export -o ",
     [](const World& w) {
       return w.init_image("tar", make_tar({file("opt/a.py", std::string(5000, 'x'))}).substr(0, 3000));
     }},
    {"LayerIsDamaged", 3, "the archive is damaged or was changed",
     "skopeo copy docker-daemon:IMAGE oci-archive:",
     [](const World& w) {
       return w.init_image("oci", oci_archive([](std::map<std::string, std::string>& files) {
                             files[blob_path(kImage.layers[0])][600] ^= 1;
                           }));
     }},
    {"LayerIsLacking", 3, "does not contain", "",
     [](const World& w) {
       return w.init_image("oci", oci_archive([](std::map<std::string, std::string>& files) {
                             files.erase(blob_path(kImage.layers[0]));
                           }));
     }},
    {"IndexIsNoJson", 3, "not valid JSON", "skopeo copy ",
     [](const World& w) {
       return w.init_image(
           "oci", oci_archive([](std::map<std::string, std::string>& files) { files["index.json"] = "{"; }));
     }},
    {"EntryLiesAboutItsSize", 3, "image.tar", "docker export -o ",
     [](const World& w) {
       TarItem lie = file("opt/a.py", "short");
       lie.lie_about_size = 1 << 20;
       return w.init_image("tar", make_tar({lie}));
     }},
    {"PathIsNotInTheArchive", 3, "No such path is inside the archive", "",
     [](const World& w) { return w.init_image("tar", make_tar({file("srv/a.py", "x\n")})); }},
};

class BadInput : public testing::TestWithParam<Case> {};

// Splits "a && b" and asks each of our own commands for its help, which must know every flag that is named.
void expect_exists(const World& world, const std::string& next) {
  std::size_t begin = 0;
  while (begin <= next.size()) {
    const std::size_t end = std::min(next.find(" && ", begin), next.size());
    std::istringstream words(next.substr(begin, end - begin));
    begin = end + 4;
    std::string word;
    words >> word;
    if (word != "tessera-stack") {
      EXPECT_EQ(run_command("type " + word).status == 0 || word == "docker" || word == "skopeo", true)
          << word;
      continue;
    }
    std::vector<std::string> verb;
    std::vector<std::string> flags;
    while (words >> word) {
      if (word == "--plan")
        words >> word;
      else if (word.starts_with("--"))
        flags.push_back(word);
      else if (flags.empty() && verb.size() < (verb == std::vector<std::string>{"plan"} ? 2U : 1U))
        verb.push_back(word);
    }
    verb.push_back("--help");
    const Answer help = world.run(verb);
    EXPECT_EQ(help.code, 0) << next;
    const std::string common = world.run({"--help"}).out;
    for (const std::string& flag : flags)
      EXPECT_TRUE(help.out.find(flag) != std::string::npos || common.find(flag) != std::string::npos)
          << flag << " in " << next;
  }
}

TEST_P(BadInput, IsOneSentenceWithTheNextCommand) {
  const World world;
  const std::string heads = "for-each-ref refs/heads/main";
  const std::string before = world.git.git(heads);
  const Answer answer = GetParam().typed(world);
  EXPECT_EQ(answer.code, GetParam().code) << answer.err;
  EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
  EXPECT_THAT(answer.err, HasSubstr(GetParam().says));
  constexpr std::string_view kNext = "; next: ";
  const std::size_t at = answer.err.rfind(kNext);
  ASSERT_NE(at, std::string::npos) << answer.err;
  const std::string next = answer.err.substr(at + kNext.size(), answer.err.size() - at - kNext.size() - 1);
  if (*GetParam().next == '\0')
    EXPECT_THAT(next, HasSubstr("tessera-stack --plan ")) << "what was typed";
  else
    EXPECT_THAT(next, HasSubstr(GetParam().next));
  expect_exists(world, next);
  EXPECT_EQ(world.git.git(heads), before);
}

INSTANTIATE_TEST_SUITE_P(All, BadInput, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

// What the sentence about a missing blob names does bring it back.
TEST(BadInputCure, AMissingBlobComesBackWithTheCommandThatIsNamed) {
  const World world;
  const ScratchFolder folder;
  const std::string clone = folder / "clone";
  ASSERT_EQ(run_command("git clone -q --no-local 'file://" + world.git.path() + "' '" + clone + "'").status,
            0);
  const std::string pack = "p=$(ls '" + clone + "'/.git/objects/pack/*.pack) && mv $p '" + clone +
                           "'/gone && rm -f '" + clone + "'/.git/objects/pack/* && git -C '" + clone +
                           "' unpack-objects -q < '" + clone + "'/gone";
  ASSERT_EQ(run_command(pack).status, 0);
  const std::string id = world.git.git("rev-parse " + world.base + ":b.py");
  std::filesystem::remove(clone + "/.git/objects/" + id.substr(0, 2) + "/" + id.substr(2));
  const Answer broken = world.init(clone, world.base, world.source());
  ASSERT_EQ(broken.code, 1) << broken.err;
  ASSERT_EQ(run_next(broken, folder.path().string()).status, 0) << broken.err;
  std::filesystem::remove(world.plan());
  EXPECT_EQ(world.init(clone, world.base, world.source()).code, 0);
}

TEST(BadInputCure, TheBlobsOfAPartialCloneComeWithTheCommandThatIsNamed) {
  const World world;
  const Libgit2ForgetsMatches allowed;
  world.git.git("config uploadpack.allowFilter true");
  const ScratchFolder folder;
  const std::string clone = folder / "partial.git";
  ASSERT_EQ(
      run_command("git clone -q --bare --filter=blob:none 'file://" + world.git.path() + "' '" + clone + "'")
          .status,
      0);
  const Answer broken = world.init(clone, world.base, world.source());
  ASSERT_EQ(broken.code, 1) << broken.err;
  EXPECT_THAT(broken.err, AllOf(HasSubstr("unreadable: a.py"), HasSubstr("unreadable: b.py")));
  ASSERT_EQ(run_next(broken, folder.path().string()).status, 0) << broken.err;
  std::filesystem::remove(world.plan());
  EXPECT_EQ(world.init(clone, world.base, world.source()).code, 0);
}

TEST(BadInputCure, MachinesGetTheNextCommandByItself) {
  const World world;
  const Answer answer = world.run({"--json", "list"});
  EXPECT_THAT(answer.json()["what"].get<std::string>(), testing::EndsWith("names another."));
  EXPECT_THAT(answer.json()["next"].get<std::string>(), HasSubstr("init --repo REPO"));
}

}  // namespace
}  // namespace tessera::stack
