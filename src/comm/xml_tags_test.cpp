#include "comm/xml_tags.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(XmlTags, KeepsAttributesInOrderAndCountsLines) {
  XmlTags tags("<a x=\"1\"\n y = '2' />\n</b>");
  const auto first = tags.next();
  ASSERT_TRUE(first.ok() && first->has_value());
  EXPECT_EQ((*first)->kind, XmlTag::Kind::kEmpty);
  EXPECT_EQ((*first)->attribute("x"), "1");
  EXPECT_EQ((*first)->attribute("y"), "2");
  EXPECT_EQ((*first)->attribute("z"), std::nullopt);
  EXPECT_EQ(tags.line(), 2);
  const auto second = tags.next();
  ASSERT_TRUE(second.ok() && second->has_value());
  EXPECT_EQ((*second)->kind, XmlTag::Kind::kClose);
  EXPECT_FALSE((*tags.next()).has_value());
}

TEST(XmlTags, RefusesUnfinishedTags) {
  for (const char* text : {"<", "<a", "<a x", "<a x=", "<a x=\"", "<a x=1>", "<a x=\"1\" x=\"2\">", "</a/>",
                           "</a b=\"\">", "<?xml", "< a>"}) {
    EXPECT_FALSE(XmlTags(text).next().ok()) << text;
  }
}

}  // namespace
}  // namespace tessera
