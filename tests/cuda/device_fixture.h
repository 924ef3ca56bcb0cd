// Two back-ends side by side: the CPU's, exact, and the GPU's. Values go to both as what the GPU can hold.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/test_data.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_card.h"

namespace tessera::test {

// Both precisions of the GPU: true is f32, in plain loops.
class OnGpu : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    gpu_ = make({.exact = GetParam()});
    cpu_ = make_cpu_backend({});
  }
  static std::unique_ptr<Backend> make(const CudaOptions& options) {
    auto backend = make_cuda_backend(options);
    TS_CHECK(backend.ok(), backend.error().message());
    return *std::move(backend);
  }
  bool exact() const { return GetParam(); }
  // `loose` where results are rounded to bf16 on the way, `tight` for f32 all through.
  double bound(double loose, double tight) const { return exact() ? tight : loose; }

  std::vector<float> values(std::int64_t count, float scale = 1) {
    std::vector<float> result = random_.normals(count, scale);
    if (!exact()) {
      for (float& x : result) x = static_cast<float>(BF16(x));
    }
    return result;
  }

  template <class T>
  T* upload(const std::vector<T>& host) {
    buffers_.push_back(gpu_->allocate(host.size() * sizeof(T)));
    gpu_->copy_to_device(buffers_.back().get(), host.data(), host.size() * sizeof(T));
    return static_cast<T*>(buffers_.back().get());
  }
  // Rows of activations, `stride` elements apart; what lies between them is NaN.
  Tensor upload_rows(const std::vector<float>& host, std::int64_t rows, std::int64_t cols,
                     std::int64_t stride = 0) {
    if (stride == 0) stride = cols;
    const Tensor t = poisoned(gpu_->activation_dtype(), rows, cols, stride);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<float> row(host.begin() + r * cols, host.begin() + (r + 1) * cols);
      if (exact()) {
        gpu_->copy_to_device(t.row_range(r, 1).data, row.data(), row.size() * 4);
      } else {
        std::vector<BF16> narrow(row.begin(), row.end());
        gpu_->copy_to_device(t.row_range(r, 1).data, narrow.data(), narrow.size() * 2);
        gpu_->synchronise();
      }
    }
    gpu_->synchronise();
    return t;
  }
  // NaN everywhere.
  Tensor poisoned(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t stride = 0) {
    if (stride == 0) stride = cols;
    const std::vector<unsigned char> bytes(
        static_cast<std::size_t>(std::max<std::int64_t>(rows * stride, 1) * bytes_of(dtype)), 0xff);
    Tensor t = Tensor::dense(upload(bytes), dtype, rows, cols);
    t.stride = stride;
    return t;
  }
  Tensor result(std::int64_t rows, std::int64_t cols, std::int64_t stride = 0) {
    return poisoned(gpu_->activation_dtype(), rows, cols, stride);
  }
  std::vector<float> download(const Tensor& t) {
    if (t.size() == 0) return {};
    const std::int64_t size = bytes_of(t.dtype);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(((t.rows - 1) * t.stride + t.cols) * size));
    gpu_->synchronise();
    gpu_->copy_to_host(bytes.data(), t.data, bytes.size());
    gpu_->synchronise();
    std::vector<float> host;
    host.reserve(static_cast<std::size_t>(t.size()));
    for (std::int64_t r = 0; r < t.rows; ++r) {
      const unsigned char* row = bytes.data() + r * t.stride * size;
      for (std::int64_t c = 0; c < t.cols; ++c) {
        if (t.dtype == DType::kBF16) {
          BF16 x;
          std::memcpy(&x, row + 2 * c, 2);
          host.push_back(static_cast<float>(x));
        } else {
          float x = 0;
          std::memcpy(&x, row + 4 * c, 4);
          host.push_back(x);
        }
      }
    }
    return host;
  }
  std::vector<std::int32_t> download_ints(const Tensor& t) {
    std::vector<std::int32_t> host(static_cast<std::size_t>(t.size()));
    gpu_->copy_to_host(host.data(), t.data, host.size() * 4);
    gpu_->synchronise();
    return host;
  }

  Random random_{1};
  std::unique_ptr<Backend> gpu_;
  std::unique_ptr<Backend> cpu_;
  std::deque<Buffer> buffers_;
};

// Empty where every row of `found` is within `bound` of `want` by ||found - want|| / ||want||; NaN never is.
inline std::string far_row(const std::vector<float>& found, const std::vector<float>& want, std::int64_t cols,
                           double bound) {
  if (found.size() != want.size()) return "sizes differ";
  double worst = 0;
  for (std::size_t first = 0; first < want.size(); first += static_cast<std::size_t>(cols)) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = first; i < first + static_cast<std::size_t>(cols); ++i) {
      const double w = static_cast<double>(want[i]);
      const double d = static_cast<double>(found[i]) - w;
      difference += d * d;
      size += w * w;
    }
    const double error = std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
    worst = std::max(worst, difference == 0 ? 0.0 : error);
    if (difference != 0 && !(error <= bound)) {
      return "row " + std::to_string(first / static_cast<std::size_t>(cols)) + " is off by " +
             std::to_string(error) + " of its size, more than " + std::to_string(bound) +
             "; it starts with " + std::to_string(found[first]) + ", expected " + std::to_string(want[first]);
    }
  }
  return {};
}

}  // namespace tessera::test
