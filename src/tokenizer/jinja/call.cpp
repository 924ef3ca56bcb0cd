#include "tokenizer/jinja/call.h"

#include <algorithm>

namespace tessera::jinja {

Bound::Bound(Call& call, std::string_view name, std::initializer_list<const char*> parameters,
             std::size_t required)
    : name_(name), parameters_(parameters.begin(), parameters.end()), values_(parameters.size(), nullptr) {
  if (call.args.size() > values_.size()) {
    fail(std::string(name) + " takes at most " + std::to_string(values_.size()) + " arguments, not " +
         std::to_string(call.args.size()) + ".");
  }
  for (std::size_t i = 0; i < call.args.size(); ++i) values_[i] = &call.args[i];
  for (const auto& [key, value] : call.named) {
    const auto found = std::ranges::find(parameters_, key);
    if (found == parameters_.end()) fail(std::string(name) + " has no argument named " + key + ".");
    const Value*& slot = values_[static_cast<std::size_t>(found - parameters_.begin())];
    if (slot != nullptr) fail(std::string(name) + " got its argument " + key + " twice.");
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr)
      fail(std::string(name) + " misses its argument " + std::string(parameters_[i]) + ".");
  }
}

long long Bound::int_or(std::size_t i, long long otherwise) const {
  if (!has(i)) return otherwise;
  const Value& value = *values_[i];
  if (!value.is_integral()) {
    fail("The argument " + std::string(parameters_[i]) + " of " + std::string(name_) + " is a " +
         value.type_name() + ", not an int.");
  }
  constexpr Int kMax = 1LL << 62;
  if (value.integer() > kMax || value.integer() < -kMax) {
    fail("The argument " + std::string(parameters_[i]) + " of " + std::string(name_) + " is too large.");
  }
  return static_cast<long long>(value.integer());
}

const Text& Bound::text(std::size_t i) const {
  if (!has(i) || !values_[i]->is_string()) {
    fail("The argument " + std::string(parameters_[i]) + " of " + std::string(name_) + " is a " +
         (has(i) ? values_[i]->type_name() : "NoneType") + ", not a str.");
  }
  return values_[i]->text();
}

}  // namespace tessera::jinja
