#include "base/markup.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Markup, NothingLeavesItsPlace) {
  EXPECT_EQ(markup_escaped("a <b> & \"c\" 'd'"), "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(markup_escaped(std::string_view("x\ny\0z\x1b[0m", 9)), "x y z [0m");
  EXPECT_EQ(markup_escaped("grün"), "grün");
}

}  // namespace
}  // namespace tessera
