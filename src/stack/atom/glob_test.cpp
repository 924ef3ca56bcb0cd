#include "stack/atom/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::stack {
namespace {

TEST(Glob, StarStaysInOneFolderAndTwoStarsDoNot) {
  EXPECT_TRUE(glob_matches("a/*.py", "a/x.py"));
  EXPECT_FALSE(glob_matches("a/*.py", "a/b/x.py"));
  EXPECT_TRUE(glob_matches("a/**", "a/b/x.py"));
  EXPECT_FALSE(glob_matches("a/**", "ab/x.py"));
  EXPECT_TRUE(glob_matches("**/x.py", "x.py"));
  EXPECT_TRUE(glob_matches("**/x.py", "a/b/x.py"));
  EXPECT_FALSE(glob_matches("**/x.py", "a/yx.py"));
  EXPECT_TRUE(glob_matches("**/__pycache__/**", "v/__pycache__/m.pyc"));
  EXPECT_TRUE(glob_matches("a/**/z", "a/z"));
  EXPECT_TRUE(glob_matches("*.bak*", "x.bak2"));
}

TEST(Glob, SetsAndQuotedBytes) {
  EXPECT_TRUE(glob_matches("E=[0-9]*,N=?", "E=257,N=2"));
  EXPECT_FALSE(glob_matches("[!a]b", "ab"));
  EXPECT_TRUE(glob_matches("\\[128,128\\].json", "[128,128].json"));
  EXPECT_TRUE(glob_matches("a[", "a["));
  EXPECT_FALSE(glob_matches("[x]", "/"));
}

TEST(Glob, BracesThatOtherToolsExpandAreRefusedByName) {
  for (const char* glob : {"src/{a,b}/**", "*.{py,cu}", "{a,{b,c}}", "v{1..3}", "x{,y}"}) {
    const auto checked = check_glob(glob);
    ASSERT_FALSE(checked) << glob;
    EXPECT_NE(checked.error().message().find(glob), std::string::npos) << checked.error().message();
    EXPECT_NE(checked.error().what.find("[a-z]"), std::string::npos);
  }
  for (const char* glob :
       {"a,b", "{a}", "a{", "}a,b{", "\\{a,b}", "{{cookiecutter.name}}/**", "[{]a,b}", "a..b"}) {
    EXPECT_TRUE(check_glob(glob)) << glob;
  }
  EXPECT_TRUE(glob_matches("\\{a,b}/*", "{a,b}/x"));
}

TEST(Glob, ManyStarsTakeNoExponentialTime) {
  std::string glob;
  for (int i = 0; i < 200; ++i) glob += "*a**b";
  EXPECT_FALSE(glob_matches(glob, std::string(4000, 'a')));
}

}  // namespace
}  // namespace tessera::stack
