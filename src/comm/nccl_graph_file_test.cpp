#include "comm/nccl_graph_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace tessera
