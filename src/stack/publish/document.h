// A document as data: headings, paragraphs, tables, lists, code and one drawing; written out as Markdown or
// as one HTML page. All text is foreign (paths, titles, reasons of a plan): both writers escape it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera::stack {

struct Span {
  enum class Kind { kText, kCode, kStrong, kLink } kind = Kind::kText;
  std::string text;
  std::string link{};  // kLink: only http and https become links
};
using Line = std::vector<Span>;

Span plain(std::string text);
Span code(std::string text);
Span strong(std::string text);
Span link(std::string text, std::string url);

struct Heading {
  int level = 1;
  std::string text;
};
struct Paragraph {
  Line line;
};
struct Bullets {
  std::vector<Line> items;
};
struct Table {
  std::vector<std::string> head;
  std::vector<std::vector<Line>> rows;
  std::vector<bool> numeric{};  // [columns] set right-aligned; may be shorter
};
struct Code {
  std::string text;
};
struct Drawing {
  std::string svg;          // ours, already escaped
  std::string alternative;  // for the Markdown form: Mermaid text
};
using Block = std::variant<Heading, Paragraph, Bullets, Table, Code, Drawing>;

struct Document {
  std::string title;
  std::vector<Block> blocks;
};

std::string to_markdown(const Document& document);
// One self-contained page: no script, no font, no picture from elsewhere; light and dark after the reader's
// setting.
std::string to_html(const Document& document);

std::string html_escaped(std::string_view text);
// Text that Markdown shows as it is, also inside a table cell.
std::string markdown_escaped(std::string_view text);

}  // namespace tessera::stack
