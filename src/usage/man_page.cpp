#include "usage/man_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>

namespace tessera {
namespace {

// Text that roff shows as it is: a hyphen would become a soft one, a dot at a line's start a request.
std::string escaped(std::string_view text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

void append_options(std::string& out, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const bool is_said_above = app.get_parent() != nullptr && option == app.get_help_ptr();
    if (option->get_group().empty() || is_said_above) continue;
    std::string names = option->get_name(option->get_positional(), true);
    for (std::size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 2)
      names.insert(at + 1, " ");
    out += ".TP\n.B " + escaped(names) + "\n" + escaped(option->get_description());
    if (!option->get_default_str().empty()) out += " (default: " + escaped(option->get_default_str()) + ")";
    out += "\n";
  }
}

// As it stands: examples lose their meaning when lines are filled.
void append_verbatim(std::string& out, const std::string& text) {
  const std::size_t first = text.find_first_not_of('\n');
  if (first == std::string::npos) return;
  out += ".PP\n.nf\n" + escaped(text.substr(first));
  if (text.back() != '\n') out += "\n";
  out += ".fi\n";
}

void append_verbs(std::string& out, const CLI::App& app, const std::string& before) {
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    out += ".SS " + escaped(before + verb->get_name()) + "\n" + escaped(verb->get_description()) + "\n";
    append_options(out, *verb);
    append_verbatim(out, verb->get_footer());
    append_verbs(out, *verb, before + verb->get_name() + " ");
  }
}

}  // namespace

std::string man_page(const CLI::App& app) {
  std::string title = app.get_name();
  std::ranges::transform(title, title.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string out = ".TH " + escaped(title) + " 1\n.SH NAME\n" + escaped(app.get_name()) + " \\- " +
                    escaped(app.get_description()) + "\n.SH SYNOPSIS\n.B " + escaped(app.get_name()) +
                    "\n.I VERB\n[flags]\n.SH FLAGS OF ALL VERBS\n";
  append_options(out, app);
  out += ".SH VERBS\n";
  append_verbs(out, app, "");
  if (!app.get_footer().empty()) {
    out += ".SH NOTES\n";
    append_verbatim(out, app.get_footer());
  }
  return out;
}

}  // namespace tessera
