// The bus alone: the best rate at which pinned memory goes to a GPU in blocks of the size that loading uses.
#pragma once

namespace tessera::bench {

double pinned_copy_gb_s(int device);

}  // namespace tessera::bench
