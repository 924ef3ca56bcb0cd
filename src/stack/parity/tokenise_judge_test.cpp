// Python is the judge: whatever we call mild in one of its files must leave its syntax tree as it was.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "stack/parity/classify.h"

namespace tessera::stack {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// One small change of white space, comments or line ends somewhere.
std::string mutated(std::string text, std::mt19937& random) {
  const auto at = [&] { return static_cast<std::size_t>(random() % (text.size() + 1)); };
  switch (random() % 4) {
    case 0: {
      constexpr std::string_view kPieces[] = {" ", "  ", "\n", "\t", "# x\n", "\\\n", " # \"\n"};
      text.insert(at(), kPieces[random() % std::size(kPieces)]);
      break;
    }
    case 1: {
      const std::size_t found = text.find_first_of(" \n\t#", at());
      if (found != std::string::npos) text.erase(found, 1);
      break;
    }
    case 2: {
      const std::size_t found = text.find('#', at());
      if (found != std::string::npos) text.insert(found + 1, "z");
      break;
    }
    default: {
      const std::size_t found = text.find_first_of(" \n", at());
      if (found != std::string::npos) text.insert(found, " ");
      break;
    }
  }
  return text;
}

TEST(PythonJudge, MildDifferencesLeaveTheSyntaxTreeAsItWas) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tessera-judge-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path folder = pattern;
  std::mt19937 random(20261130);
  int mild = 0;
  std::ofstream pairs(folder / "pairs");
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TESSERA_SOURCE_DIR) / "models/recipe")) {
    if (entry.path().extension() != ".py") continue;
    const std::string before = read_file(entry.path());
    for (int round = 0; round < 60; ++round) {
      std::string after = before;
      for (auto edits = 1 + random() % 3; edits > 0; --edits) after = mutated(std::move(after), random);
      const TextClass value = classify_texts("a.py", before, after);
      if (value == TextClass::kSame || value == TextClass::kReal) continue;
      const std::filesystem::path file = folder / (std::to_string(mild++) + ".py");
      std::ofstream(file, std::ios::binary) << after;
      pairs << entry.path().string() << '\t' << file.string() << '\n';
    }
  }
  pairs.close();
  EXPECT_GT(mild, 100);
  std::ofstream(folder / "judge") << "import ast, functools, sys\n"
                                     "@functools.lru_cache(1)\n"
                                     "def before_tree(path):\n"
                                     "    return tree(path)\n"
                                     "def tree(path):\n"
                                     "    return ast.dump(ast.parse(open(path, 'rb').read()))\n"
                                     "for line in open(sys.argv[1]):\n"
                                     "    before, after = line.rstrip('\\n').split('\\t')\n"
                                     "    assert before_tree(before) == tree(after), after\n";
  const std::string command =
      "python3 -W ignore " + (folder / "judge").string() + " " + (folder / "pairs").string();
  EXPECT_EQ(std::system(command.c_str()), 0) << "the files are kept in " << folder;
  if (!HasFailure()) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::stack
