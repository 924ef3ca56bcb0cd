// Read-only zeros that cost no memory: every page is the kernel's one page of zeros.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"

namespace tessera {

class ZeroPages {
 public:
  static Result<ZeroPages> map(std::size_t bytes);
  ZeroPages() = default;

  const std::byte* data() const { return data_.get(); }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* data) const;
  };
  explicit ZeroPages(std::unique_ptr<std::byte, Unmap> data) : data_(std::move(data)) {}

  std::unique_ptr<std::byte, Unmap> data_;
};

}  // namespace tessera
