#include "tokenizer/jinja/template.h"

#include "tokenizer/jinja/parser.h"

namespace tessera::jinja {
namespace {

Error to_error(const Failure& failure, const std::string& name) {
  return {failure.kind, failure.line > 0 ? name + ":" + std::to_string(failure.line) : name, failure.what};
}

}  // namespace

Result<Template> Template::parse(std::string_view source, std::string name) {
  try {
    Block block = parse_template(source);
    return Template(std::move(name), std::move(block));
  } catch (const Failure& failure) {
    return to_error(failure, name);
  }
}

Result<Text> Template::render(const std::vector<std::pair<std::string, Value>>& names, const Limits& limits,
                              std::chrono::system_clock::time_point now) const {
  try {
    Interpreter run(limits, now);
    for (const auto& [name, value] : names) run.define(name, value);
    return run.run(block_);
  } catch (const Failure& failure) {
    return to_error(failure, name_);
  }
}

}  // namespace tessera::jinja
