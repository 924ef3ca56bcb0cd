#include "bench/load/default_text.h"

// The file's path is given by the build (CMakeLists.txt).
asm(R"(
  .section .rodata
  .global tessera_default_text
  .global tessera_default_text_end
tessera_default_text:
  .incbin ")" TESSERA_DEFAULT_TEXT R"("
tessera_default_text_end:
  .byte 0
  .text
)");

extern "C" const char tessera_default_text[];
extern "C" const char tessera_default_text_end[];

namespace tessera::bench {

std::string_view default_text() {
  return {tessera_default_text, static_cast<std::size_t>(tessera_default_text_end - tessera_default_text)};
}

}  // namespace tessera::bench
