// A program's --help as a manual page.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera {

// roff, from the definitions that --help is made from: flags, verbs with theirs, and the footers as examples.
// Flags without a group are left out, as in --help. The program's name is the app's.
std::string man_page(const CLI::App& app);

}  // namespace tessera
