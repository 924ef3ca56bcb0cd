// What may be called mild, language by language. Each case is two texts and the class that is certain.
#include <gtest/gtest.h>

#include <ostream>

#include "stack/parity/classify.h"
#include "stack/parity/language.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {

void PrintTo(TextClass value, std::ostream* out) { *out << name_of(value); }

namespace {

constexpr auto kBlank = TextClass::kBlank;
constexpr auto kComment = TextClass::kComment;
constexpr auto kDirective = TextClass::kDirective;
constexpr auto kReal = TextClass::kReal;
constexpr auto kEol = TextClass::kEol;

TextClass py(std::string_view a, std::string_view b) { return classify_texts("a.py", a, b); }
TextClass cc(std::string_view a, std::string_view b) { return classify_texts("a.cu", a, b); }
TextClass sh(std::string_view a, std::string_view b) { return classify_texts("a.sh", a, b); }
TextClass docker(std::string_view a, std::string_view b) { return classify_texts("Dockerfile", a, b); }
TextClass yaml(std::string_view a, std::string_view b) { return classify_texts("a.yaml", a, b); }
TextClass js(std::string_view a, std::string_view b) { return classify_texts("a.ts", a, b); }
TextClass rs(std::string_view a, std::string_view b) { return classify_texts("a.rs", a, b); }

TEST(Eol, CrlfAndTheFinalNewlineAreTheirOwnClass) {
  EXPECT_EQ(classify_texts("x.md", "a\r\nb\r\n", "a\nb\n"), kEol);
  EXPECT_EQ(classify_texts("x.bin", "a\n", "a"), kEol);
  EXPECT_EQ(classify_texts("x.md", "a\rb", "a\nb"), kReal);
  EXPECT_EQ(classify_texts("x.md", "a\n\n", "a\n"), kReal);  // a line less, not its end
  EXPECT_EQ(classify_texts("x.bin", std::string_view("\0\r\n", 3), std::string_view("\0\n", 2)), kReal);
}

TEST(Prose, HasNoMildClasses) {
  EXPECT_EQ(classify_texts("x.md", "a  b\n", "a b\n"), kReal);
  EXPECT_EQ(classify_texts("x.md", "line  \n", "line\n"), kReal);
  EXPECT_EQ(classify_texts("LICENSE", "a\n\nb\n", "a\nb\n"), kReal);
}

TEST(Python, ReindentedStatementIsReal) {
  EXPECT_EQ(py("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n"), kReal);
  EXPECT_EQ(py("for x in y:\n  f(x)\n", "for x in y:\n    f(x)\n"), kBlank);  // same structure
}

TEST(Python, BlankLinesAndBlanksAtTheEndMeanNothing) {
  EXPECT_EQ(py("a = 1\nb = 2\n", "a = 1   \n\n\nb  =  2\n"), kBlank);
  EXPECT_EQ(py("f(a,\n  b)\n", "f(a, b)\n"), kBlank);
  EXPECT_EQ(py("x = 1 + \\\n  2\n", "x = 1 + 2\n"), kBlank);
}

TEST(Python, CommentTextIsComment) {
  EXPECT_EQ(py("a = 1  # one\n", "a = 1  # eins\n"), kComment);
  EXPECT_EQ(py("a = 1\n", "# new\na = 1\n"), kComment);
  EXPECT_EQ(py("if a:\n    b\n", "if a:\n# at the margin\n    b\n"), kComment);
}

TEST(Python, CommentsThatToolsReadAreDirectives) {
  EXPECT_EQ(py("a = 1\n", "a = 1  # noqa: E501\n"), kDirective);
  EXPECT_EQ(py("# -*- coding: latin-1 -*-\na\n", "# -*- coding: utf-8 -*-\na\n"), kDirective);
  EXPECT_EQ(py("a = 1  # type: ignore\nb = 2\n", "a = 1\nb = 2  # type: ignore\n"), kDirective);
  EXPECT_EQ(py("# SPDX-License-Identifier: MIT\na\n", "a\n"), kDirective);
  EXPECT_EQ(py("#!/usr/bin/python3\na\n", "#!/usr/bin/python3 -O\na\n"), kDirective);
}

TEST(Python, DocstringIsReal) {
  EXPECT_EQ(py("def f():\n    \"\"\"one\"\"\"\n", "def f():\n    \"\"\"two\"\"\"\n"), kReal);
}

TEST(Python, BlanksInsideATripleQuotedStringAreReal) {
  EXPECT_EQ(py("s = '''a\n  b'''\n", "s = '''a\n b'''\n"), kReal);
  EXPECT_EQ(py("s = '''a \n'''\n", "s = '''a\n'''\n"), kReal);
}

TEST(Python, TabsBecomeBlanksInAConsistentBlockOnly) {
  EXPECT_EQ(py("if a:\n\tb\n\tc\n", "if a:\n        b\n        c\n"), kBlank);
  EXPECT_EQ(py("if a:\n\tb\n        c\n", "if a:\n        b\n        c\n"),
            kReal);  // Python 3 refuses the first one
}

TEST(Python, HashInAStringIsNoComment) {
  EXPECT_EQ(py("s = '# a'\n", "s = '# b'\n"), kReal);
  EXPECT_EQ(py("s = r'\\'\nt = '# a'\n", "s = r'\\'\nt = '# b'\n"), kReal);
  EXPECT_EQ(py("s = f'{d[\"# a\"]}'\n", "s = f'{d[\"# b\"]}'\n"), kReal);
}

TEST(Python, FormatSpecsAndNestedStringsOfFStringsAreVerbatim) {
  EXPECT_EQ(py("s = f'{x:\"^10}'; t = 'a  b'\n", "s = f'{x:\"^10}'; t = 'a b'\n"), kReal);
  EXPECT_EQ(py("s = f'{x[\"a  b\"]}'\n", "s = f'{x[\"a b\"]}'\n"), kReal);
  EXPECT_EQ(py("s = f'{x['a  b']}'\n", "s = f'{x['a b']}'\n"), kReal);  // Python 3.12
  EXPECT_EQ(py("s = f'{{{x}}}'  # one\n", "s = f'{{{x}}}'  # two\n"), kComment);
  EXPECT_EQ(py("s = f\"{d['{']}\"  # one\n", "s = f\"{d['{']}\"  # two\n"), kComment);
}

TEST(Python, UnterminatedOrUnbalancedTextHasNoMildClass) {
  EXPECT_EQ(py("s = '''a  b", "s = '''a b"), kReal);
  EXPECT_EQ(py("f(a\n", "f( a\n"), kReal);
  EXPECT_EQ(py("a)\n", "a )\n"), kReal);
  EXPECT_EQ(py("if a:\n    b\n  c\n", "if a:\n    b\n  c \n"), kReal);  // a dedent to nowhere
}

TEST(Python, TokensKeepTheirBorders) {
  EXPECT_EQ(py("a - > b\n", "a -> b\n"), kReal);
  EXPECT_EQ(py("x = 1 if y else 2\n", "x = 1if y else 2\n"), kReal);  // equal to Python, not certain to us
  EXPECT_EQ(py("not x\n", "notx\n"), kReal);
  EXPECT_EQ(py("x = a\nb\n", "x = a b\n"), kReal);
}

TEST(C, CommentInsideARawStringIsReal) {
  EXPECT_EQ(cc("auto s = R\"x(// a)x\";", "auto s = R\"x(// b)x\";"), kReal);
  EXPECT_EQ(cc("auto s = R\"(a  b)\";", "auto s = R\"(a b)\";"), kReal);
  EXPECT_EQ(cc("auto s = \"// a\";", "auto s = \"// b\";"), kReal);
}

TEST(C, BackslashThatSwallowsTheNextLineIsReal) {
  EXPECT_EQ(cc("// note\nf();\n", "// note \\\nf();\n"), kReal);
}

TEST(C, FunctionMacroAgainstObjectMacroIsReal) {
  EXPECT_EQ(cc("#define f(x) x\n", "#define f (x) x\n"), kReal);
  EXPECT_EQ(cc("#define f(x) x\n", "#  define   f(x)   x\n"), kBlank);
}

TEST(C, RewrappedArgumentsAreBlank) {
  EXPECT_EQ(cc("f(a, b,\n  c);", "f(a,\n  b, c);"), kBlank);
  EXPECT_EQ(cc("kernel<<<g, b>>>(x);", "kernel<<<g,b>>>(\n x);"), kBlank);
}

TEST(C, NewlineEndsADirective) {
  EXPECT_EQ(cc("#define A 1\nint x;\n", "#define A 1 int x;\n"), kReal);
  EXPECT_EQ(cc("#define A 1 \\\n 2\n", "#define A 1 2\n"), kBlank);
  EXPECT_EQ(cc("#include <a b>\n", "#include <a  b>\n"), kReal);
}

TEST(C, CommentBetweenTokensReplacedByABlankIsComment) {
  EXPECT_EQ(cc("int/* */x;", "int x;"), kComment);
  EXPECT_EQ(cc("int x; // a", "int x; // b"), kComment);
  EXPECT_EQ(cc("a/**/b", "ab"), kReal);
}

TEST(C, NolintIsADirective) { EXPECT_EQ(cc("f();\n", "f();  // NOLINT(x)\n"), kDirective); }

TEST(C, UnterminatedCommentIsReal) {
  EXPECT_EQ(cc("f(); /* a", "f(); /* b"), kReal);
  EXPECT_EQ(cc("f(); /*/", "f();  /*/"), kReal);
}

TEST(C, LineNumberThatTheProgramReadsIsReal) {
  EXPECT_EQ(cc("int a;\nlog(__LINE__);\n", "int a;\n\nlog(__LINE__);\n"), kReal);
  EXPECT_EQ(cc("log(__LINE__);\nint a;\n", "log(__LINE__);\n\nint a;\n"), kBlank);
}

TEST(C, TokensKeepTheirBorders) {
  EXPECT_EQ(cc("a > > b", "a >> b"), kReal);
  EXPECT_EQ(cc("a + +b", "a ++b"), kReal);
  EXPECT_EQ(cc("\"x\" _s", "\"x\"_s"), kReal);
  EXPECT_EQ(cc("L 'x'", "L'x'"), kReal);
  EXPECT_EQ(cc("x = 1'000;", "x  = 1'000 ;"), kBlank);
  EXPECT_EQ(cc("#if 0\nisn't\n#endif\n", "#if 0\n isn't\n#endif\n"), kReal);  // an open quote: not certain
}

TEST(Shell, WordsQuotesAndHereDocuments) {
  EXPECT_EQ(sh("a  b\n", "a b\n"), kBlank);
  EXPECT_EQ(sh("a 'x  y'\n", "a 'x y'\n"), kReal);
  EXPECT_EQ(sh("a \\\n  b\n", "a b\n"), kBlank);
  EXPECT_EQ(sh("a\nb\n", "a b\n"), kReal);
  EXPECT_EQ(sh("a # one\n", "a # two\n"), kComment);
  EXPECT_EQ(sh("echo $# ${x#y} a#b\n", "echo $# ${x#z} a#b\n"), kReal);
  EXPECT_EQ(sh("cat <<EOF\n# a\nEOF\n", "cat <<EOF\n# b\nEOF\n"), kReal);
  EXPECT_EQ(sh("cat <<-'E'\n\tx  y\n\tE\nz  1\n", "cat <<-'E'\n\tx  y\n\tE\nz 1\n"), kBlank);
  EXPECT_EQ(sh("x=\"$(f \"a  b\")\"\n", "x=\"$(f \"a b\")\"\n"), kReal);
  EXPECT_EQ(sh("# shellcheck disable=SC1\na\n", "# shellcheck disable=SC2\na\n"), kDirective);
  EXPECT_EQ(sh("echo 'open\n", "echo  'open\n"), kReal);
}

TEST(Dockerfile, CommentsStandAtTheBeginningOfALineOnly) {
  EXPECT_EQ(docker("# a\nRUN x  y\n", "# b\nRUN x y\n"), kComment);
  EXPECT_EQ(docker("RUN x # a\n", "RUN x # b\n"), kReal);
  EXPECT_EQ(docker("RUN a \\\n# note\n b\n", "RUN a \\\n b\n"), kComment);
  EXPECT_EQ(docker("# syntax=docker/dockerfile:1\nFROM x\n", "# syntax=docker/dockerfile:2\nFROM x\n"),
            kDirective);
  EXPECT_EQ(docker("FROM x\nRUN y\n", "FROM x\n\n\nRUN  y\n"), kBlank);
  EXPECT_EQ(docker("RUN <<EOF\n# a\nEOF\n", "RUN <<EOF\n# b\nEOF\n"), kReal);
}

TEST(Yaml, IndentationAndScalarsAreVerbatim) {
  EXPECT_EQ(yaml("a:\n  b: 1\n", "a:\n    b: 1\n"), kReal);
  EXPECT_EQ(yaml("a: 1\n", "a: 1  \n\n"), kBlank);
  EXPECT_EQ(yaml("a: 1 # x\n", "a: 1 # y\n"), kComment);
  EXPECT_EQ(yaml("a: x#y\n", "a: x#z\n"), kReal);
  EXPECT_EQ(yaml("a: 'it''s # x'\n", "a: 'it''s # y'\n"), kReal);
  EXPECT_EQ(yaml("a: rock 'n # x\nb: 'x # y'\n", "a: rock 'n # x\nb: 'x # z'\n"), kReal);
  EXPECT_EQ(yaml("a: |\n  # x\nb: 1\n", "a: |\n  # y\nb: 1\n"), kReal);
  EXPECT_EQ(yaml("- a: >-\n    x  \n- b\n", "- a: >-\n    x\n- b\n"), kReal);
  EXPECT_EQ(yaml("a: \"open\n  # x\"\n", "a: \"open\n  # y\"\n"), kReal);
  EXPECT_EQ(yaml("a: !t 'x # y'\n", "a: !t 'x # z'\n"), kReal);
}

TEST(Toml, StringsAndCommentsAreToldApart) {
  const auto toml = [](std::string_view a, std::string_view b) { return classify_texts("a.toml", a, b); };
  EXPECT_EQ(toml("a=1\n", "a   =   1  # x\n"), kComment);
  EXPECT_EQ(toml("a = \"# x\"\n", "a = \"# y\"\n"), kReal);
  EXPECT_EQ(toml("a = '''\n# x\n'''\n", "a = '''\n# y\n'''\n"), kReal);
  EXPECT_EQ(toml("a = 1\nb = 2\n", "\na = 1\n\n\nb=2"), kBlank);
}

TEST(Ini, ValuesAreVerbatim) {
  const auto ini = [](std::string_view a, std::string_view b) { return classify_texts("setup.cfg", a, b); };
  EXPECT_EQ(ini("[a]\nb = 1\n", "[a]\n\nb = 1  \n"), kBlank);
  EXPECT_EQ(ini("b = x  y\n", "b = x y\n"), kReal);
  EXPECT_EQ(ini("# x\nb = 1\n", "; y\nb = 1\n"), kComment);
  EXPECT_EQ(ini("b =\n  1\n", "b =\n\n  1\n"), kReal);
}

TEST(Json, OnlyStringsHoldBlanks) {
  const auto json = [](std::string_view a, std::string_view b) { return classify_texts("a.json", a, b); };
  EXPECT_EQ(json("{\"a\": [1, 2]}", "{\n \"a\":[1,2]\n}\n"), kBlank);
  EXPECT_EQ(json("{\"a\": 1, \"b\": 2}", "{\"b\": 2, \"a\": 1}"), kReal);
  EXPECT_EQ(json("{\"a  b\":1}", "{\"a b\":1}"), kReal);
  EXPECT_EQ(json("{} // x", "{} // y"), kReal);
}

TEST(CMake, BracketsAndQuotesAreVerbatim) {
  const auto cmake = [](std::string_view a, std::string_view b) {
    return classify_texts("CMakeLists.txt", a, b);
  };
  EXPECT_EQ(cmake("f(a b)\n", "f(\n  a\n  b)\n"), kBlank);
  EXPECT_EQ(cmake("f(a) # x\n", "f(a) #[[ y\n ]]\n"), kComment);
  EXPECT_EQ(cmake("f([=[ # a ]] ]=])\n", "f([=[ # b ]] ]=])\n"), kReal);
  EXPECT_EQ(cmake("f(\"# a\")\n", "f(\"# b\")\n"), kReal);
  EXPECT_EQ(cmake("f(-Da=\"b c\")\n", "f(-Da= \"b c\")\n"), kReal);
}

TEST(Rust, CommentsNestAndDocCommentsAreReal) {
  EXPECT_EQ(rs("f(); /* a /* b */ c */ g();", "f(); /* x */ g();"), kComment);
  EXPECT_EQ(rs("/// a\nfn f() {}", "/// b\nfn f() {}"), kReal);
  EXPECT_EQ(rs("let c = '\"'; // a", "let c = '\"'; // b"), kComment);
  EXPECT_EQ(rs("fn f<'a>(x: &'a str) {}", "fn f< 'a >(x: &'a str) {}"), kBlank);
  EXPECT_EQ(rs("r#\"// \"a\"#", "r#\"// \"b\"#"), kReal);
}

TEST(Script, LineBreaksTemplatesAndExpressionsAreKept) {
  EXPECT_EQ(js("return\nx", "return x"), kReal);
  EXPECT_EQ(js("f( a )\n\n\ng()", "f(a)\ng()"), kBlank);
  EXPECT_EQ(js("x = `a  b`", "x = `a b`"), kReal);
  EXPECT_EQ(js("x = `${f(`a  }`)} // c`", "x = `${f(`a }`)} // c`"), kReal);
  EXPECT_EQ(js("x = /a  b/", "x = /a b/"), kReal);
  EXPECT_EQ(js("if (x) /a  b/.test(y)", "if (x) /a b/.test(y)"), kReal);
  EXPECT_EQ(js("x = a / b // c", "x = a/b // d"), kComment);
  EXPECT_EQ(js("x = 1 /*\n*/ y", "x = 1 y"), kReal);  // the comment was a line break
}

TEST(Makefile, RecipesAndVariablesAreVerbatim) {
  const auto make = [](std::string_view a, std::string_view b) { return classify_texts("Makefile", a, b); };
  EXPECT_EQ(make("a:\n\tx # y\n", "a:\n\tx # z\n"), kReal);
  EXPECT_EQ(make("a:\n\tx\n", "a:\n        x\n"), kReal);
  EXPECT_EQ(make("A := x\n", "A := x \n"), kReal);
  EXPECT_EQ(make("# x\n\nA := 1\n", "# y\nA := 1\n"), kComment);
  EXPECT_EQ(make("# x \\\nA := 1\n", "# x \\\nA := 2\n"), kComment);
}

TEST(Language, GoesByNameThenByFirstLine) {
  EXPECT_EQ(language_of("docker/Dockerfile.rocm", ""), Language::kDockerfile);
  EXPECT_EQ(language_of("tools/run", "#!/usr/bin/env python3\n"), Language::kPython);
  EXPECT_EQ(language_of("tools/run", "#!/bin/sh\n"), Language::kShell);
  EXPECT_EQ(language_of("README.md", "#!/bin/sh\n"), Language::kUnknown);
}

// Token streams never depend on what stands around: a text that is read is read again from itself the same
// way.
TEST(Tokenise, AnyBytesAreAcceptedByEveryLanguage) {
  constexpr std::string_view kPieces = "\"'`#/*\\\n\t {}()[]<>=:$&|-abEOF0\r\xe9";
  std::string noise;
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525 + 1013904223;
    noise += kPieces[(state >> 16) % kPieces.size()];
  }
  for (int language = 0; language <= static_cast<int>(Language::kMakefile); ++language) {
    for (std::size_t at = 0; at < noise.size(); at += 37) {
      (void)tokenise(static_cast<Language>(language), std::string_view(noise).substr(at, 200));
    }
  }
}

}  // namespace
}  // namespace tessera::stack
