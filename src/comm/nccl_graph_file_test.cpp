#include "comm/nccl_graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include "comm/xml_tags.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kEightRanks = std::string(TESSERA_SOURCE_DIR) + "/src/comm/testdata/eight_ranks.xml";

std::string refusal(std::string_view xml) {
  const auto file = parse_nccl_graph_file(xml, "g.xml");
  EXPECT_FALSE(file.ok()) << xml;
  return file.ok() ? "" : file.error().message();
}

std::string graph_of(std::string_view channels, int declared = 1) {
  return "<graphs><graph id=\"0\" nchannels=\"" + std::to_string(declared) + "\">" + std::string(channels) +
         "</graph></graphs>";
}

TEST(NcclGraphFile, CountsTheRanksOfEveryChannelOnce) {
  const auto file = read_nccl_graph_file(kEightRanks);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->ranks, 8);
  EXPECT_EQ(file->graphs, 3);
  EXPECT_EQ(file->channels, 6);
}

TEST(NcclGraphFile, AppliesToGroupsOfExactlyItsSize) {
  const auto file = read_nccl_graph_file(kEightRanks);
  ASSERT_TRUE(file.ok());
  for (const int size : {1, 2, 4, 7, 9, 16}) EXPECT_FALSE(file->applies_to(size)) << size;
  EXPECT_TRUE(file->applies_to(8));
}

TEST(NcclGraphFile, NetworkCardsAreNoRanks) {
  const auto file = parse_nccl_graph_file(
      graph_of("<channel><net dev=\"0\"/><gpu dev=\"0x0\"/><gpu dev='1'/><net dev=\"0\"/></channel>"),
      "g.xml");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->ranks, 2);
}

TEST(NcclGraphFile, CommentedChannelsDoNotCount) {
  const auto file = parse_nccl_graph_file(
      graph_of("<!-- <channel><gpu dev=\"9\"/></channel> --><channel><gpu dev=\"0\"/></channel>"), "g.xml");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->ranks, 1);
}

TEST(NcclGraphFile, GpusOutsideChannelsDoNotCount) {
  const auto file = parse_nccl_graph_file(
      graph_of("<gpu dev=\"5\"/><other><gpu dev=\"6\"/></other><channel><gpu dev=\"0\"/></channel>"),
      "g.xml");
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->ranks, 1);
}

TEST(NcclGraphFile, DamageIsRefusedWithItsLine) {
  EXPECT_THAT(refusal(""), HasSubstr("no <graph>"));
  EXPECT_THAT(refusal("no xml at all"), HasSubstr("no <graph>"));
  EXPECT_THAT(refusal("<graphs></graphs>"), HasSubstr("no <graph>"));
  EXPECT_THAT(refusal("<system/>"), HasSubstr("the root element is <system>"));
  EXPECT_THAT(refusal(graph_of("", 0)), HasSubstr("describes no ranks"));
  EXPECT_THAT(refusal(graph_of("<channel/>")), HasSubstr("names no GPU"));
  EXPECT_THAT(refusal("<graphs>\n<graph nchannels=\"1\">\n<channel><gpu dev=\"0\"/>\n"),
              AllOf(HasSubstr("g.xml:3"), HasSubstr("ends inside <channel>")));
  EXPECT_THAT(refusal("<graphs>\n</graph>"),
              AllOf(HasSubstr("g.xml:2"), HasSubstr("</graph> closes <graphs>")));
  EXPECT_THAT(refusal("</graphs>"), HasSubstr("closes nothing"));
  EXPECT_THAT(refusal("<graphs><graph/></graphs>"), HasSubstr("nchannels"));
  EXPECT_THAT(refusal(graph_of("<channel><gpu/></channel>")), HasSubstr("needs dev"));
  EXPECT_THAT(refusal(graph_of("<channel><gpu dev=\"-1\"/></channel>")), HasSubstr("found \"-1\""));
  EXPECT_THAT(refusal(graph_of("<channel><gpu dev=\"1x\"/></channel>")), HasSubstr("found \"1x\""));
  EXPECT_THAT(refusal(graph_of("<channel><gpu dev=\"99999999999\"/></channel>")),
              HasSubstr("found \"99999999999\""));
  EXPECT_THAT(refusal("<graphs><!-- <graph/>"), HasSubstr("comment is not closed"));
  EXPECT_THAT(refusal("<!DOCTYPE x><graphs/>"), HasSubstr("element's name"));
}

TEST(NcclGraphFile, ContradictionsAreRefusedWithBothSides) {
  EXPECT_THAT(refusal(graph_of("<channel><gpu dev=\"0\"/><gpu dev=\"0\"/></channel>")),
              HasSubstr("GPU 0 twice"));
  EXPECT_THAT(refusal(graph_of("<channel><gpu dev=\"0\"/></channel>", 2)),
              HasSubstr("declares 2 channels and has 1"));
  EXPECT_THAT(refusal(graph_of("<channel><gpu dev=\"0\"/></channel><channel><gpu dev=\"1\"/></channel>", 2)),
              HasSubstr("names GPUs {1}, the first one {0}"));
}

TEST(NcclGraphFile, DeepNestingIsRefused) {
  std::string xml = "<graphs>";
  for (int i = 0; i < 1000; ++i) xml += "<a>";
  EXPECT_THAT(refusal(xml), HasSubstr("nested deeper than 16"));
}

TEST(NcclGraphFile, AMissingFileIsNamed) {
  const auto decision = decide_nccl_graph("/nowhere/graph.xml", "tp", 8);
  ASSERT_FALSE(decision.ok());
  EXPECT_EQ(decision.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(decision.error().where, "/nowhere/graph.xml");
  EXPECT_THAT(decision.error().what, HasSubstr("NCCL_GRAPH_FILE"));
}

TEST(NcclGraphFile, AFolderIsNoFile) {
  EXPECT_FALSE(decide_nccl_graph(std::filesystem::temp_directory_path().c_str(), "tp", 8).ok());
}

TEST(NcclGraphFile, AHugeFileIsRefusedByItsSize) {
  const auto path = std::filesystem::temp_directory_path() / "tessera_nccl_graph_huge.xml";
  std::ofstream(path) << std::string(5 << 20, ' ');
  const auto decision = decide_nccl_graph(path.c_str(), "tp", 8);
  std::filesystem::remove(path);
  ASSERT_FALSE(decision.ok());
  EXPECT_EQ(decision.error().kind, ErrorKind::kTooLarge);
}

TEST(NcclGraphDecision, OnlyTheGroupThatTheFileDescribesKeepsIt) {
  for (const int size : {2, 4}) {
    const auto decision = decide_nccl_graph(kEightRanks.c_str(), "dcp", size);
    ASSERT_TRUE(decision.ok()) << decision.error().message();
    EXPECT_EQ(decision->use, NcclGraphUse::kRemove);
    EXPECT_EQ(decision->sentence, "nccl group dcp of " + std::to_string(size) +
                                      " ranks: created without NCCL_GRAPH_FILE, which describes 8 ranks (" +
                                      kEightRanks + ")");
  }
  const auto decision = decide_nccl_graph(kEightRanks.c_str(), "tp", 8);
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->use, NcclGraphUse::kKeep);
  EXPECT_EQ(decision->sentence, "nccl group tp of 8 ranks: NCCL_GRAPH_FILE applies (" + kEightRanks +
                                    ", 6 channels over 8 ranks)");
}

TEST(NcclGraphDecision, WithoutTheVariableNothingChanges) {
  const auto decision = decide_nccl_graph(nullptr, "tp", 4);
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->use, NcclGraphUse::kKeep);
  EXPECT_THAT(decision->sentence, HasSubstr("not set"));
}

TEST(NcclGraphDecision, AnEmptyVariableIsHidden) {
  const auto decision = decide_nccl_graph("", "tp", 4);
  ASSERT_TRUE(decision.ok());
  EXPECT_EQ(decision->use, NcclGraphUse::kRemove);
}

class Scope : public testing::Test {
 protected:
  void SetUp() override { setenv("NCCL_GRAPH_FILE", "a.xml", 1); }
  void TearDown() override { unsetenv("NCCL_GRAPH_FILE"); }
  static std::string value() {
    const char* found = std::getenv("NCCL_GRAPH_FILE");
    return found ? found : "(none)";
  }
};

TEST_F(Scope, RemoveHidesTheVariableUntilItsEnd) {
  {
    const NcclGraphScope scope(NcclGraphUse::kRemove);
    EXPECT_EQ(value(), "(none)");
  }
  EXPECT_EQ(value(), "a.xml");
}

TEST_F(Scope, KeepLeavesTheVariable) {
  const NcclGraphScope scope(NcclGraphUse::kKeep);
  EXPECT_EQ(value(), "a.xml");
}

TEST_F(Scope, AVariableThatWasNotThereDoesNotAppear) {
  unsetenv("NCCL_GRAPH_FILE");
  { const NcclGraphScope scope(NcclGraphUse::kRemove); }
  EXPECT_EQ(value(), "(none)");
}

// Ranks that are threads meet inside ncclCommInitRank: a scope that let one in at a time would never return.
TEST_F(Scope, TheRanksOfOneGroupMayAllBeInside) {
  std::latch all_inside(4);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.emplace_back([&] {
      const NcclGraphScope scope(NcclGraphUse::kRemove);
      all_inside.arrive_and_wait();
      EXPECT_EQ(value(), "(none)");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(value(), "a.xml");
}

TEST_F(Scope, GroupsThatDisagreeNeverOverlap) {
  std::atomic<int> keeping = 0;
  std::atomic<int> removing = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, remove = t % 2 == 0] {
      for (int i = 0; i < 200; ++i) {
        const NcclGraphScope scope(remove ? NcclGraphUse::kRemove : NcclGraphUse::kKeep);
        ++(remove ? removing : keeping);
        EXPECT_EQ((remove ? keeping : removing).load(), 0);
        EXPECT_EQ(value(), remove ? "(none)" : "a.xml");
        --(remove ? removing : keeping);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

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
