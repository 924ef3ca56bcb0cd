#include "stack/plan/plan_editor.h"

#include <algorithm>
#include <set>

#include "stack/plan/toml_table.h"

namespace tessera::stack {
namespace {

Result<toml::table> parse(std::string_view text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& failed) {
    return Error{ErrorKind::kInvalidArgument, "plan:" + std::to_string(failed.source().begin.line),
                 std::string(failed.description()) + "."};
  }
}

// toml++ counts lines from 1 and columns in code points from 1.
std::size_t offset_of(std::string_view text, const toml::source_position& at) {
  std::size_t offset = 0;
  for (toml::source_index line = 1; line < at.line; ++line) {
    const std::size_t end = text.find('\n', offset);
    if (end == std::string_view::npos) return text.size();
    offset = end + 1;
  }
  for (toml::source_index column = 1; column < at.column && offset < text.size(); ++column) {
    ++offset;
    while (offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xC0) == 0x80) ++offset;
  }
  return offset;
}

// Behind the value that begins at `at`: strings and arrays are scanned here, because end positions of toml++
// are not reliable for every kind of node.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  const auto skip_string = [&](std::size_t i) {
    const char quote = text[i];
    const std::string triple(3, quote);
    if (text.substr(i).starts_with(triple)) {
      std::size_t end = i + 3;
      while (end < text.size() && !text.substr(end).starts_with(triple))
        end += quote == '"' && text[end] == '\\' ? 2 : 1;
      end += 3;
      while (end < text.size() && text[end] == quote)
        ++end;  // up to two quotes may stand before the closing three
      return std::min(end, text.size());
    }
    std::size_t end = i + 1;
    while (end < text.size() && text[end] != quote) end += quote == '"' && text[end] == '\\' ? 2 : 1;
    return std::min(end + 1, text.size());
  };
  int depth = 0;
  std::size_t i = at;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = skip_string(i);
      if (depth == 0) return i;
      continue;
    }
    if (c == '#' && depth > 0) {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') {
      if (--depth <= 0) return depth == 0 ? i + 1 : i;
    }
    if (depth == 0 && (c == '\n' || c == ',' || c == '#' || c == ' ')) return i;
    ++i;
  }
  return text.size();
}

const toml::table* find_bucket(const toml::table& document, std::string_view name) {
  const toml::array* buckets = document["bucket"].as_array();
  if (buckets == nullptr) return nullptr;
  for (const toml::node& node : *buckets) {
    const toml::table* table = node.as_table();
    if (table != nullptr && table->get("name") != nullptr &&
        table->get("name")->value_or(std::string_view()) == name)
      return table;
  }
  return nullptr;
}

std::size_t after_line(std::string_view text, std::size_t at) {
  const std::size_t end = text.find('\n', at);
  return end == std::string_view::npos ? text.size() : end + 1;
}

// The table of a bucket that may be changed, in a document of our own.
toml::table* find_bucket(toml::table& document, std::string_view name) {
  return const_cast<toml::table*>(find_bucket(std::as_const(document), name));
}

Error no_bucket(std::string_view name) {
  return {ErrorKind::kNotFound, "plan", "There is no bucket '" + std::string(name) + "' to change."};
}

}  // namespace

std::string toml_quoted(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      static constexpr char kDigits[] = "0123456789ABCDEF";
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

// An edit of text counts only when it reads as the change that was meant, and as nothing else.
Result<void> PlanEditor::accept(std::string edited, const void* expected_table) {
  const auto& expected = *static_cast<const toml::table*>(expected_table);
  const auto read = parse(edited);
  if (!read || *read != expected) {
    return Error{ErrorKind::kUnsupported, "plan",
                 "This part of the plan is laid out in a way that cannot be edited in place; write each "
                 "table under its own "
                 "[header] or [[header]], with one key a line."};
  }
  text_ = std::move(edited);
  return {};
}

Result<void> PlanEditor::set(std::string_view table, std::string_view key, std::string_view value) {
  TS_TRY(toml::table document, parse(text_));
  toml::table* found = document[table].as_table();
  if (found == nullptr)
    return Error{ErrorKind::kNotFound, "plan", "There is no [" + std::string(table) + "] to change."};
  std::string text = text_;
  if (const toml::node* node = found->get(key)) {
    const std::size_t begin = offset_of(text, node->source().begin);
    text.replace(begin, end_of_value(text, begin) - begin, toml_quoted(value));
  } else {
    const std::size_t at = after_line(text, offset_of(text, found->source().begin));
    text.insert(at, std::string(key) + " = " + toml_quoted(value) + "\n");
  }
  found->insert_or_assign(key, std::string(value));
  return accept(std::move(text), &document);
}

Result<void> PlanEditor::add_to_list(std::string_view bucket, std::string_view key,
                                     const std::vector<std::string>& items) {
  if (items.empty()) return {};
  TS_TRY(toml::table document, parse(text_));
  toml::table* table = find_bucket(document, bucket);
  if (table == nullptr) return no_bucket(bucket);
  std::string text = text_;
  std::string lines;
  toml::array added;
  for (const std::string& item : items) {
    const bool is_table = item.starts_with("{ ");
    lines += "  " + (is_table ? item : toml_quoted(item)) + ",\n";
    if (!is_table) {
      added.push_back(item);
      continue;
    }
    TS_TRY(toml::table one, parse("item = " + item));
    if (one["item"].as_table() == nullptr)
      return Error{ErrorKind::kInvalidArgument, "plan", "'" + item + "' is no inline table."};
    added.push_back(*one["item"].as_table());
  }
  toml::node* node = table->get(key);
  if (node == nullptr) {
    std::size_t at = after_line(text, offset_of(text, table->source().begin));
    // New lists stand behind `take`, or behind the header when there is none.
    if (const toml::node* take = table->get("take")) {
      at = after_line(text, end_of_value(text, offset_of(text, take->source().begin)));
    }
    if (at > 0 && text[at - 1] != '\n')
      lines = "\n" + std::string(key) + " = [\n" + lines + "]\n";
    else
      lines = std::string(key) + " = [\n" + lines + "]\n";
    text.insert(at, lines);
    table->insert_or_assign(key, std::move(added));
    return accept(std::move(text), &document);
  }
  toml::array* array = node->as_array();
  if (array == nullptr)
    return Error{ErrorKind::kInvalidArgument, "plan", "'" + std::string(key) + "' is not a list."};
  const std::size_t begin = offset_of(text, node->source().begin);
  const std::size_t close = end_of_value(text, begin) - 1;
  std::size_t last = begin + 1;
  bool needs_comma = false;
  if (!array->empty()) {
    last = end_of_value(text, offset_of(text, array->back().source().begin));
    needs_comma = true;
    for (std::size_t i = last; i < close; ++i) {
      if (text[i] == '#') i = std::min(text.find('\n', i), close);
      if (i < close && text[i] == ',') needs_comma = false;
    }
  }
  if (last > close || close >= text.size()) return accept({}, &document);  // not where toml++ says: refused
  // Before the bracket, on lines of their own.
  std::size_t line_start = close;
  while (line_start > last && (text[line_start - 1] == ' ' || text[line_start - 1] == '\t')) --line_start;
  const bool own_line = line_start > 0 && text[line_start - 1] == '\n';
  text.insert(own_line ? line_start : close, own_line ? lines : "\n" + lines);
  if (needs_comma) text.insert(last, ",");
  for (toml::node& item : added) array->push_back(item);
  return accept(std::move(text), &document);
}

Result<void> PlanEditor::remove_from_list(std::string_view bucket, std::string_view key,
                                          const std::vector<std::string>& items) {
  TS_TRY(toml::table document, parse(text_));
  toml::table* table = find_bucket(document, bucket);
  if (table == nullptr) return no_bucket(bucket);
  toml::array* array = table->get(key) == nullptr ? nullptr : table->get(key)->as_array();
  if (array == nullptr) return {};
  const std::set<std::string> unwanted(items.begin(), items.end());
  const auto is_unwanted = [&](const toml::node& node) {
    return node.is_string() && unwanted.contains(node.as_string()->get());
  };
  std::string text = text_;
  std::vector<std::size_t> begins;
  for (const toml::node& node : *array) {
    if (is_unwanted(node)) begins.push_back(offset_of(text, node.source().begin));
  }
  if (begins.empty()) return {};
  for (const std::size_t begin : std::vector(begins.rbegin(), begins.rend())) {
    std::size_t end = end_of_value(text, begin);
    std::size_t comma = end;
    while (comma < text.size() && (text[comma] == ' ' || text[comma] == '\t' || text[comma] == '\n')) ++comma;
    if (comma < text.size() && text[comma] == ',') end = comma + 1;
    std::size_t from = begin;
    while (from > 0 && (text[from - 1] == ' ' || text[from - 1] == '\t')) --from;
    std::size_t to = end;
    while (to < text.size() && (text[to] == ' ' || text[to] == '\t')) ++to;
    if (to < text.size() && text[to] == '\n' && from > 0 && text[from - 1] == '\n')
      end = to + 1;  // a line of its own
    text.erase(from, end - from);
  }
  for (std::size_t i = array->size(); i-- > 0;) {
    if (is_unwanted(*array->get(i))) array->erase(array->cbegin() + static_cast<std::ptrdiff_t>(i));
  }
  return accept(std::move(text), &document);
}

Result<void> PlanEditor::remove_key(std::string_view bucket, std::string_view key) {
  TS_TRY(toml::table document, parse(text_));
  toml::table* table = find_bucket(document, bucket);
  if (table == nullptr) return no_bucket(bucket);
  const auto at = table->find(key);
  if (at == table->end()) return {};
  std::string text = text_;
  std::size_t begin = offset_of(text, at->first.source().begin);
  while (begin > 0 && text[begin - 1] != '\n') --begin;
  const std::size_t end = after_line(text, end_of_value(text, offset_of(text, at->second.source().begin)));
  text.erase(begin, end - begin);
  table->erase(key);
  return accept(std::move(text), &document);
}

void PlanEditor::append(std::string_view block) {
  if (!text_.empty() && text_.back() != '\n') text_ += '\n';
  if (!text_.empty()) text_ += '\n';
  text_ += block;
}

}  // namespace tessera::stack
