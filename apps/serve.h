// `tessera serve`: loads a model and answers HTTP until a signal or a fatal error.
#pragma once

#include "serve_flags.h"

namespace tessera {

// The process's exit status: 0 after an orderly end, 1 after an error (which has been printed).
int run_serve(const ServeFlags& flags);

}  // namespace tessera
