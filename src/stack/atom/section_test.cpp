#include "stack/atom/section.h"

#include <gtest/gtest.h>

#include "stack/git/line_diff.h"

namespace tessera::stack {
namespace {

constexpr std::string_view kPython =
    "import os\n"                // 0
    "class Runner(Base):\n"      // 1
    "    x = 1\n"                // 2
    "\n"                         // 3
    "    def prepare(\n"         // 4
    "        self,\n"            // 5
    "    ):\n"                   // 6
    "# a comment in column 0\n"  // 7
    "        if self.x:\n"       // 8
    "            return 2\n"     // 9
    "\n"                         // 10
    "async def alone():\n"       // 11
    "    pass\n";                // 12

std::string names(std::string_view path, std::string_view text, std::size_t at) {
  std::string out;
  for (const Section& s : enclosing_sections(path, split_lines(text), at)) out += s.kind + ":" + s.name + " ";
  return out;
}

TEST(Section, PythonFollowsIndentation) {
  EXPECT_EQ(names("r.py", kPython, 0), "");
  EXPECT_EQ(names("r.py", kPython, 2), "class:Runner ");
  EXPECT_EQ(names("r.py", kPython, 9), "class:Runner fn:prepare ");
  EXPECT_EQ(names("r.py", kPython, 4), "class:Runner fn:prepare ");
  EXPECT_EQ(names("r.py", kPython, 12), "fn:alone ");
  EXPECT_EQ(names("r.py", kPython, 99), "");
}

TEST(Section, OtherLanguagesTakeTheLastLineInColumnZero) {
  constexpr std::string_view kCode =
      "static int add(int a,\n               int b) {\n  return a;\nlabel:\n  b;\n}\nstruct S {\n  int "
      "x;\n};\n";
  EXPECT_EQ(names("a.cpp", kCode, 2), "fn:add ");
  EXPECT_EQ(names("a.cpp", kCode, 4), "fn:add ");
  EXPECT_EQ(names("a.cpp", kCode, 7), "class:S ");
}

}  // namespace
}  // namespace tessera::stack
