// The door to this folder: parse once, render often. Const after parsing, safe to share between threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/jinja/interpreter.h"

namespace tessera::jinja {

class Template {
 public:
  // `name` is how errors call it ("name:LINE").
  static Result<Template> parse(std::string_view source, std::string name);
  Result<Text> render(const std::vector<std::pair<std::string, Value>>& names, const Limits& limits,
                      std::chrono::system_clock::time_point now) const;

 private:
  Template(std::string name, Block block) : name_(std::move(name)), block_(std::move(block)) {}

  std::string name_;
  Block block_;
};

}  // namespace tessera::jinja
