#include "server/http/failure.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tessera::http {
namespace {

template <class T>
std::string described(const T& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return describe_failure();
  }
}

TEST(Failure, SaysWhatItIsOnOneLine) {
  EXPECT_EQ(described(std::runtime_error("a\nb")), "a b");
  EXPECT_EQ(described(1), "something that is not a std::exception");
  EXPECT_EQ(described(std::runtime_error(std::string(1000, 'x'))).size(), 300U);
}

TEST(Failure, LeavesOutWhatJsonParsersQuote) {
  EXPECT_EQ(described(std::runtime_error("[json.exception.parse_error.101] last read: 'my secret'")),
            "[json.exception.parse_error.101]");
}

TEST(Failure, LeavesOutWhatAnybodyQuotes) {
  EXPECT_EQ(described(std::out_of_range("no token for \"my secret\" at 7")), "no token for (left out)");
  EXPECT_EQ(described(std::runtime_error("cannot render 'my secret'")), "cannot render (left out)");
}

}  // namespace
}  // namespace tessera::http
