#include "tokenizer/jinja/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace tessera::jinja {
namespace {

using Json = nlohmann::ordered_json;
constexpr Limits kLimits{.steps = 1'000'000, .text_bytes = 1 << 24, .depth = 100};
// 2026-03-07 15:04:05 UTC, as in testdata/make_template_goldens.py.
const std::chrono::system_clock::time_point kNow{std::chrono::seconds(1772895845)};

Result<Text> render(std::string_view source, const Json& names = Json::object(),
                    const Limits& limits = kLimits) {
  TS_TRY(const Template parsed, Template::parse(source, "test"));
  std::vector<std::pair<std::string, Value>> values;
  for (const auto& [name, value] : names.items()) values.emplace_back(name, from_json(value));
  return parsed.render(values, limits, kNow);
}

std::string text_of(std::string_view source, const Json& names = Json::object()) {
  const Result<Text> text = render(source, names);
  return text ? text->bytes() : "ERROR " + text.error().message();
}

// The foreign bytes of a rendering in [brackets].
std::string marked(std::string_view source, const Json& names) {
  const Result<Text> text = render(source, names);
  if (!text) return "ERROR " + text.error().message();
  std::string out;
  std::size_t begin = 0;
  for (const auto& run : text->runs()) {
    const std::string part(text->view().substr(begin, run.end - begin));
    out += run.foreign ? "[" + part + "]" : part;
    begin = run.end;
  }
  return out;
}

Error error_of(std::string_view source, const Json& names = Json::object(), const Limits& limits = kLimits) {
  const Result<Text> text = render(source, names, limits);
  return text ? Error{ErrorKind::kInternal, "", "rendered: " + text->bytes().substr(0, 100)} : text.error();
}

TEST(Jinja, SnippetsRenderAsInPython) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/src/tokenizer/testdata/snippet_goldens.json");
  const Json goldens = Json::parse(file);
  ASSERT_GT(goldens.at("results").size(), 100U);
  for (const Json& golden : goldens.at("results")) {
    const auto source = golden.at("source").get<std::string>();
    const Result<Text> text = render(source, goldens.at("names"));
    if (golden.contains("error")) {
      EXPECT_FALSE(text) << source << "\nrendered: " << text->bytes() << "\nPython: " << golden.at("python");
    } else if (!text) {
      ADD_FAILURE() << source << "\n" << text.error().message();
    } else {
      EXPECT_EQ(text->bytes(), golden.at("text").get<std::string>()) << source;
    }
  }
}

TEST(Jinja, TellsWhoWroteWhat) {
  const Json names = {{"m", "evil"}, {"list", {"a", "b"}}, {"d", {{"k", "v"}}}, {"n", 5}};
  EXPECT_EQ(marked("<{{ m }}>", names), "<[evil]>");
  EXPECT_EQ(marked("{{ '<' + m + '>' }}{{ '<' ~ m ~ n }}", names), "<[evil]><[evil]5");
  EXPECT_EQ(marked("{{ ('<' + m + '>')[1:4] }}{{ (' x' ~ m) | trim }}", names), "[evi]x[evil]");
  EXPECT_EQ(marked("{{ ('<' + m) | upper }}{{ 'x' | replace('x', m) }}", names), "<[EVILevil]");
  EXPECT_EQ(marked("{{ list | join(', ') }}", names), "[a], [b]");
  EXPECT_EQ(marked("{% for c in m %}{{ c }}.{% endfor %}", names), "[e].[v].[i].[l].");
  EXPECT_EQ(marked("{{ 'a{}b'.format(m) }}{{ '<%s>' % m }}", names), "a[evil]b<[evil]>");
  EXPECT_EQ(marked("{{ d }}", names), "{'[k]': '[v]'}") << "quotes belong to repr";
  EXPECT_EQ(marked("{{ d | tojson }}{{ {'a': 1} | tojson }}", names), R"([{"k": "v"}]{"a": 1})");
  EXPECT_EQ(marked("{% set x %}a{{ m }}b{% endset %}{{ x }}", names), "a[evil]b");
  EXPECT_EQ(marked("{% macro f(x) %}({{ x }}){% endmacro %}{{ f(m) ~ f('own') }}", names), "([evil])(own)");
  EXPECT_EQ(marked("{{ ('a\n' ~ m ~ '\nb') | indent(1) }}", names), "a\n [evil]\n b");
  EXPECT_EQ(marked("{{ (m ~ '-' ~ 'b').split('-')[1] }}{{ m | title }}", names), "b[Evil]");
}

TEST(Jinja, AKnownRoleIsScaffoldAndAnUnknownOneIsNot) {
  EXPECT_EQ(marked("<|{{ m.role }}|>{{ m.content }}", {{"m", {{"role", "user"}, {"content", "user"}}}}),
            "<|user|>[user]");
  EXPECT_EQ(marked("<|{{ m.role }}|>", {{"m", {{"role", "im_end"}}}}), "<|[im_end]|>");
}

TEST(Jinja, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("a\nb\n{{ 1 / 0 }}").where, "test:3");
  EXPECT_EQ(error_of("a\n{% if x %}\n{{ y.z }}", {{"x", 1}}).where, "test:3");
  EXPECT_EQ(error_of("a\n\n{% foo %}").where, "test:3");
  EXPECT_EQ(error_of("{% macro f() %}\n{{ none + 1 }}\n{% endmacro %}\n{{ f() }}").where, "test:2");
  EXPECT_EQ(error_of("\n{{ raise_exception('no ' ~ 5) }}").message(),
            "test:2: The template refuses this dialogue: no 5");
  EXPECT_EQ(error_of("{% include 'x' %}").kind, ErrorKind::kUnsupported);
}

TEST(Jinja, EndlessWorkEnds) {
  EXPECT_EQ(
      error_of("{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}").kind,
      ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").kind, ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{{ 'x' * 1000000000000 }}").kind, ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{{ [1] * 1000000000000 }}").kind, ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{{ '%999999999d' % 1 }}").kind, ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{{ 'x' | center(100000000) }}").kind, ErrorKind::kTooLarge);
  EXPECT_EQ(
      error_of(
          "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}")
          .kind,
      ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{{ 'aaaaaaaaaaaaaaaa' | replace('', 'b' * 9000000) }}").kind, ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{{ 10 ** 10 ** 10 }}").kind, ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = [ns.l, ns.l] %}{% "
                     "endfor %}{{ ns.l }}")
                .kind,
            ErrorKind::kTooLarge);
}

TEST(Jinja, DeepNestingIsRefusedNotCrashed) {
  for (const std::string open :
       {"(", "[", "{'a':", "not ", "-", "f(", "{% if 1 %}", "1 if 1 else ", "x[", "'a' ~ ("}) {
    std::string source = open.starts_with("{%") ? "" : "{{ ";
    for (int i = 0; i < 20'000; ++i) source += open;
    EXPECT_FALSE(Template::parse(source, "deep")) << open;
  }
  for (const std::string link :
       {" + 1", ".a", "[0]", "|abs", " ~ 1", " and 1", " is defined", "()", " ** 1", " == 1"}) {
    std::string source = "{{ 1";
    for (int i = 0; i < 20'000; ++i) source += link;
    (void)render(source + " }}", Json::object());
  }
  EXPECT_EQ(
      error_of("{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}")
          .kind,
      ErrorKind::kTooLarge);
  EXPECT_EQ(error_of("{% set ns = namespace() %}{% set ns.me = ns %}").kind, ErrorKind::kUnsupported);
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THROW(from_json(deep), Failure);
}

TEST(Jinja, ATemplateIsConstAndCanBeRenderedAgain) {
  const auto parsed =
      Template::parse("{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}", "twice");
  ASSERT_TRUE(parsed);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(parsed->render({}, kLimits, kNow)->bytes(), "1");
}

TEST(Jinja, UntilTheLastByteUtf8StaysWhole) {
  EXPECT_EQ(text_of("{{ x[1:3] }}{{ x | length }}{{ x[-1] }}", {{"x", "a日é𝔘"}}), "日é4𝔘");
  EXPECT_EQ(text_of("{{ x }}", {{"x", "a\xFF"}}), "a\uFFFD");
}

}  // namespace
}  // namespace tessera::jinja
