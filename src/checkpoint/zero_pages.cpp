#include "checkpoint/zero_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace tessera {

Result<ZeroPages> ZeroPages::map(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return Error{ErrorKind::kIo, "mmap",
                 "An address range of " + std::to_string(bytes) +
                     " bytes cannot be had: " + std::strerror(errno) + "; see `ulimit -v`."};
  }
  return ZeroPages({static_cast<std::byte*>(data), Unmap{bytes}});
}

void ZeroPages::Unmap::operator()(std::byte* data) const { munmap(data, bytes); }

}  // namespace tessera
