#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/synthetic_checkpoint.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Result<SafetensorsHeader> parse(const std::string& file) {
  return parse_safetensors({reinterpret_cast<const std::byte*>(file.data()), file.size()}, "f.safetensors");
}
// A file of this header and `data_bytes` of data; its names are gone with it.
Result<SafetensorsHeader> parse_header(std::string_view header, std::size_t data_bytes) {
  return parse(synthetic::safetensors(header, std::string(data_bytes, 'x')));
}

void expect_refused(std::string_view header, std::size_t data_bytes, ErrorKind kind,
                    const std::string& words) {
  const auto parsed = parse_header(header, data_bytes);
  ASSERT_FALSE(parsed.ok()) << header;
  EXPECT_EQ(parsed.error().kind, kind) << parsed.error().message();
  EXPECT_THAT(parsed.error().message(), HasSubstr(words)) << header;
  EXPECT_THAT(parsed.error().message(), HasSubstr("f.safetensors"));
  EXPECT_THAT(parsed.error().message(), Not(HasSubstr("\n")));
}

TEST(Safetensors, ReadsEntriesInTheOrderOfTheirData) {
  const std::string file = synthetic::safetensors(
      R"( {"b":{"data_offsets":[8,12],"shape":[1],"dtype":"F32"}, "__metadata__":{"a":"b"},
          "a":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"none":{"dtype":"I64","shape":[0,7],"data_offsets":[12,12]}}   )",
      std::string(12, 'x'));
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed) << parsed.error().message();
  ASSERT_EQ(parsed->entries.size(), 3u);
  EXPECT_EQ(parsed->entries[0].name, "a");
  EXPECT_EQ(parsed->entries[0].dtype, DType::kBF16);
  EXPECT_EQ(shape_text(parsed->entries[0].dims()), "[2, 2]");
  EXPECT_EQ(parsed->entries[1].name, "b");
  EXPECT_EQ(parsed->entries[2].bytes(), 0);
}

TEST(Safetensors, EmptyHeaderAndScalarAreValid) {
  EXPECT_TRUE(parse_header("{}", 0));
  EXPECT_TRUE(parse_header(R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4));
}

TEST(Safetensors, EscapedNamesAreDecoded) {
  const std::string file = synthetic::safetensors(
      R"({"caf\u00e9 \"\ud83e\udd99\"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(parsed->entries[0].name, "café \"🦙\"");
  expect_refused(R"({"a\nb":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, ErrorKind::kCorrupt,
                 "control character");
  expect_refused(R"({"\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, ErrorKind::kCorrupt,
                 "escape");
  expect_refused(R"({"\q":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, ErrorKind::kCorrupt,
                 "escape");
}

TEST(Safetensors, ForeignButKnownTypesAreMeasuredAndLeftUntyped) {
  const auto parsed = parse_header(R"({"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})", 16);
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->entries[0].dtype.has_value());
  EXPECT_TRUE(parse_header(R"({"a":{"dtype":"F4","shape":[6],"data_offsets":[0,3]}})", 3));
  expect_refused(R"({"a":{"dtype":"F4","shape":[5],"data_offsets":[0,3]}})", 3, ErrorKind::kCorrupt,
                 "f.safetensors: a");
  expect_refused(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,16]}})", 16, ErrorKind::kUnsupported,
                 "F99");
}

TEST(Safetensors, LengthsThatCannotBeAreRefusedBeforeAnythingIsRead) {
  EXPECT_EQ(parse("").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(parse("1234567").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(parse(std::string(8, '\xff')).error().kind, ErrorKind::kTooLarge);
  std::string bomb(8, '\0');
  bomb[3] = 4;  // 64 MiB of header in a file of 8 bytes
  EXPECT_THAT(parse(bomb).error().message(), HasSubstr("truncated"));
  EXPECT_THAT(parse("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").error().message(),
              HasSubstr("git lfs pull"));
}

TEST(Safetensors, SyntaxErrorsNameTheByte) {
  expect_refused("", 0, ErrorKind::kCorrupt, "byte 0");
  expect_refused("[]", 0, ErrorKind::kCorrupt, "expected '{' at the start of the header, found '['");
  expect_refused(R"({"a":1})", 0, ErrorKind::kCorrupt, "byte 5");
  expect_refused(R"({"a")", 0, ErrorKind::kCorrupt, "found the end");
  expect_refused(R"({"a)", 0, ErrorKind::kCorrupt, "closing quote");
  expect_refused(R"({"a\)", 0, ErrorKind::kCorrupt, "closing quote");
  expect_refused(R"({} x)", 0, ErrorKind::kCorrupt, "after the header's closing brace");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},})", 1, ErrorKind::kCorrupt,
                 "in quotes");
  expect_refused(R"({"__metadata__":{"a":1}})", 0, ErrorKind::kCorrupt, "__metadata__");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, ErrorKind::kCorrupt, "twice");
}

TEST(Safetensors, EntriesMustHaveTheirThreeKeysOnceAndNoOther) {
  expect_refused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, ErrorKind::kCorrupt,
                 "no dtype, shape or data_offsets");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                 ErrorKind::kCorrupt, "twice");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":0}})", 1, ErrorKind::kCorrupt,
                 "other than");
  expect_refused(R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, ErrorKind::kCorrupt,
                 "empty name");
}

TEST(Safetensors, NumbersThatAreNoSizesAreRefused) {
  for (const char* dim : {"-1", "1.5", "1e3", "01", "9223372036854775808", "null", "\"1\""}) {
    expect_refused(R"({"a":{"dtype":"U8","shape":[)" + std::string(dim) + R"(],"data_offsets":[0,1]}})", 1,
                   ErrorKind::kCorrupt, "byte");
  }
  expect_refused(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]}})", 1,
                 ErrorKind::kCorrupt, "more elements");
  // 2^32 * 2^29 elements of 8 bits are 2^64 bits: a product that wraps to 0
  expect_refused(R"({"a":{"dtype":"U8","shape":[4294967296,536870912],"data_offsets":[0,0]}})", 0,
                 ErrorKind::kCorrupt, "more elements");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
                 ErrorKind::kCorrupt, "8 dimensions");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1, ErrorKind::kCorrupt,
                 "two offsets");
}

TEST(Safetensors, OffsetsMustFitShapeAndFile) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, ErrorKind::kCorrupt,
                 "8 bytes, but data_offsets span 4");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", 1, ErrorKind::kCorrupt,
                 "before they begin");
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1, ErrorKind::kCorrupt,
                 "truncated");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, ErrorKind::kCorrupt,
                 "goes on to 2");
}

TEST(Safetensors, TensorsNeitherOverlapNorLeaveGaps) {
  const auto two = [](const char* a, const char* b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + std::string(a) +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_TRUE(parse_header(two("[4,8]", "[0,4]"), 8));
  expect_refused(two("[0,4]", "[3,7]"), 7, ErrorKind::kCorrupt,
                 "f.safetensors: b: Its data overlaps that of a.");
  expect_refused(two("[0,4]", "[0,4]"), 4, ErrorKind::kCorrupt, "overlaps");
  expect_refused(two("[0,4]", "[5,9]"), 9, ErrorKind::kCorrupt, "1 bytes of no tensor between a and it");
  expect_refused(two("[1,5]", "[5,9]"), 9, ErrorKind::kCorrupt, "between the start and it");
}

TEST(Safetensors, DeepNestingIsNoProblem) {
  const std::string deep = R"({"a":)" + std::string(1'000'000, '[');
  expect_refused(deep, 0, ErrorKind::kCorrupt, "byte 5");
}

}  // namespace
}  // namespace tessera
