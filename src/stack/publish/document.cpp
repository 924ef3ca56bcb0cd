#include "stack/publish/document.h"

#include <algorithm>

#include "base/markup.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

bool is_web_link(std::string_view url) { return url.starts_with("https://") || url.starts_with("http://"); }

// A code span fenced by more backticks than it holds in a row.
std::string markdown_code(std::string_view text) {
  std::string shown = printable(text);
  std::size_t longest = 0, run = 0;
  for (const char c : shown) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  // A table splits its cells at bars before it looks for code.
  for (std::size_t at = shown.find('|'); at != std::string::npos; at = shown.find('|', at + 2))
    shown.insert(at, 1, '\\');
  if (shown.empty()) return {};
  const std::string fence(longest + 1, '`');
  const std::string pad = shown.front() == '`' || shown.back() == '`' ? " " : "";
  return fence + pad + shown + pad + fence;
}

std::string markdown_line(const Line& line) {
  std::string out;
  for (const Span& span : line) {
    switch (span.kind) {
      case Span::Kind::kText:
        out += markdown_escaped(span.text);
        break;
      case Span::Kind::kCode:
        out += markdown_code(span.text);
        break;
      case Span::Kind::kStrong:
        out += "**" + markdown_escaped(span.text) + "**";
        break;
      case Span::Kind::kLink:
        out += is_web_link(span.link)
                   ? '[' + markdown_escaped(span.text) + "](<" + percent_encoded(span.link) + ">)"
                   : markdown_escaped(span.text);
        break;
    }
  }
  return out;
}

std::string html_line(const Line& line) {
  std::string out;
  for (const Span& span : line) {
    const std::string text = html_escaped(span.text);
    switch (span.kind) {
      case Span::Kind::kText:
        out += text;
        break;
      case Span::Kind::kCode:
        out += "<code>" + text + "</code>";
        break;
      case Span::Kind::kStrong:
        out += "<strong>" + text + "</strong>";
        break;
      case Span::Kind::kLink:
        out += is_web_link(span.link) ? "<a href=\"" + html_escaped(span.link) + "\">" + text + "</a>" : text;
        break;
    }
  }
  return out;
}

bool is_numeric(const Table& table, std::size_t column) {
  return column < table.numeric.size() && table.numeric[column];
}

std::string markdown_table(const Table& table) {
  std::string out = "|", rule = "|";
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    out += ' ' + markdown_escaped(table.head[i]) + " |";
    rule += is_numeric(table, i) ? "---:|" : "---|";
  }
  out += '\n' + rule + '\n';
  for (const auto& row : table.rows) {
    out += '|';
    for (const Line& cell : row) out += ' ' + markdown_line(cell) + " |";
    out += '\n';
  }
  return out;
}

std::string html_table(const Table& table) {
  // A name and its value may break anywhere; in wider tables a broken id costs a line in every row.
  const std::string_view kind = table.head.size() == 2 ? " class=\"pairs\"" : "";
  std::string out = "<div class=\"scroll\"><table" + std::string(kind) + ">\n<thead><tr>";
  const auto attribute = [&](std::size_t column) {
    return is_numeric(table, column) ? " class=\"number\"" : "";
  };
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    out += std::string("<th") + attribute(i) + ">" + html_escaped(table.head[i]) + "</th>";
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += std::string("<td") + attribute(i) + ">" + html_line(row[i]) + "</td>";
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string anchor(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool upper = c >= 'A' && c <= 'Z';
    if (word || upper) {
      out += upper ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!out.empty() && !out.ends_with('-')) {
      out += '-';
    }
  }
  while (out.ends_with('-')) out.pop_back();
  return out;
}

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2327; --soft: #5b6670; --line: #d5dade; --paper: #ffffff; --tint: #f3f5f7;
  --upstream: #1f6f8b; --local: #8a5a12; --drop: #7a7f85; --good: #2c7a3f; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8eb; --soft: #9aa5ae; --line: #39424a; --paper: #14181b; --tint: #1d2327;
  --upstream: #6cc0dc; --local: #e0b060; --drop: #9aa5ae; --good: #7ccf90; --bad: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem; border-bottom: 1px solid var(--line); } h3 { font-size: 1.05rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; background: var(--tint); border-radius: 3px; }
code { padding: .1em .3em; overflow-wrap: anywhere; } pre { padding: .8rem; overflow-x: auto; } pre code { padding: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; min-width: 50%; } th, td { text-align: left; vertical-align: top;
  padding: .35rem .7rem; border-bottom: 1px solid var(--line); } th { color: var(--soft); font-weight: 600; }
td code { white-space: nowrap; } .pairs code { white-space: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; } a { color: var(--upstream); }
svg text { font: 13px ui-monospace, monospace; fill: var(--ink); }
svg .box { fill: var(--tint); stroke-width: 1.5; } svg .upstream { stroke: var(--upstream); } svg .local { stroke: var(--local); }
svg .drop { stroke: var(--drop); stroke-dasharray: 4 3; } svg .end { stroke: var(--soft); } svg .soft { fill: var(--soft); font-size: 11px; }
svg path { fill: none; stroke: var(--soft); stroke-width: 1.2; }
)";

}  // namespace

Span plain(std::string text) { return {.kind = Span::Kind::kText, .text = std::move(text)}; }
Span code(std::string text) { return {.kind = Span::Kind::kCode, .text = std::move(text)}; }
Span strong(std::string text) { return {.kind = Span::Kind::kStrong, .text = std::move(text)}; }
Span link(std::string text, std::string url) {
  return {.kind = Span::Kind::kLink, .text = std::move(text), .link = std::move(url)};
}

std::string html_escaped(std::string_view text) { return markup_escaped(printable(text)); }

std::string markdown_escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      if (std::string_view("\\`*_[]|~#@").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string to_markdown(const Document& document) {
  std::string out = "# " + markdown_escaped(document.title) + "\n";
  for (const Block& block : document.blocks) {
    out += '\n';
    std::visit(Overloaded{
                   [&](const Heading& heading) {
                     out += std::string(static_cast<std::size_t>(heading.level), '#') + ' ' +
                            markdown_escaped(heading.text) + '\n';
                   },
                   [&](const Paragraph& paragraph) { out += markdown_line(paragraph.line) + '\n'; },
                   [&](const Bullets& bullets) {
                     for (const Line& item : bullets.items) out += "- " + markdown_line(item) + '\n';
                   },
                   [&](const Table& table) { out += markdown_table(table); },
                   [&](const Code& block_code) {
                     std::string fence = "```";
                     while (block_code.text.find(fence) != std::string::npos) fence += '`';
                     out += fence + '\n' + block_code.text + (block_code.text.ends_with('\n') ? "" : "\n") +
                            fence + '\n';
                   },
                   [&](const Drawing& drawing) { out += "```mermaid\n" + drawing.alternative + "```\n"; },
               },
               block);
  }
  return out;
}

std::string to_html(const Document& document) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<title>" +
      html_escaped(document.title) + "</title>\n<style>" + std::string(kStyle) +
      "</style>\n</head>\n<body>\n<main>\n<h1>" + html_escaped(document.title) + "</h1>\n";
  for (const Block& block : document.blocks) {
    std::visit(
        Overloaded{
            [&](const Heading& heading) {
              const std::string level = std::to_string(heading.level);
              out += "<h" + level + " id=\"" + anchor(heading.text) + "\">" + html_escaped(heading.text) +
                     "</h" + level + ">\n";
            },
            [&](const Paragraph& paragraph) { out += "<p>" + html_line(paragraph.line) + "</p>\n"; },
            [&](const Bullets& bullets) {
              out += "<ul>\n";
              for (const Line& item : bullets.items) out += "<li>" + html_line(item) + "</li>\n";
              out += "</ul>\n";
            },
            [&](const Table& table) { out += html_table(table); },
            [&](const Code& block_code) {
              std::string text;  // line by line, since escaping would show the line ends
              std::string_view rest = block_code.text;
              while (!rest.empty()) {
                const std::size_t end = std::min(rest.find('\n'), rest.size());
                text += html_escaped(rest.substr(0, end)) + '\n';
                rest.remove_prefix(std::min(end + 1, rest.size()));
              }
              out += "<pre><code>" + text + "</code></pre>\n";
            },
            [&](const Drawing& drawing) { out += "<div class=\"scroll\">" + drawing.svg + "</div>\n"; },
        },
        block);
  }
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace tessera::stack
