#include "comm/rank_order_sum.h"

#include "base/check.h"

namespace tessera {
namespace {

template <class T>
void sum(std::span<const void* const> in, std::int64_t first, std::int64_t count, void* out) {
  T* result = static_cast<T*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    float total = static_cast<float>(static_cast<const T*>(in[0])[first + i]);
    for (std::size_t r = 1; r < in.size(); ++r)
      total += static_cast<float>(static_cast<const T*>(in[r])[first + i]);
    result[i] = T(total);
  }
}

}  // namespace

void sum_in_rank_order(std::span<const void* const> in, std::int64_t first, DType dtype, std::int64_t count,
                       void* out) {
  TS_CHECK(dtype == DType::kF32 || dtype == DType::kBF16, name_of(dtype));
  if (dtype == DType::kF32) {
    sum<float>(in, first, count, out);
  } else {
    sum<BF16>(in, first, count, out);
  }
}

}  // namespace tessera
