// `tessera serve`: loads a model and answers HTTP until a signal or a fatal error.
#pragma once

#include "processes.h"
#include "serve_flags.h"

namespace tessera {

// The process's exit status: 0 after an orderly end, 1 after an error (which has been printed).
// Of process 0 when there are several; `processes` is null when there is one.
int run_serve(const ServeFlags& flags, Processes* processes);

}  // namespace tessera
