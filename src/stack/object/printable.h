// Foreign bytes (paths, file contents, archive names) made safe for a terminal and for UTF-8 documents.
#pragma once

#include <string>
#include <string_view>

namespace tessera::stack {

// Control characters and bytes that are not UTF-8 become \xNN, so that an archive cannot drive the reader's
// terminal. Also escapes U+0080..U+009F (C1 controls) and the bidirectional overrides, which reorder what is
// read.
std::string printable(std::string_view bytes);
// The same for a text of several lines: line ends and tabs stay.
std::string printable_text(std::string_view bytes);
bool is_utf8(std::string_view bytes);
// Bytes outside printable ASCII, and '%', as %NN: the form that plans and JSON use for paths that are not
// UTF-8.
std::string percent_encoded(std::string_view bytes);

}  // namespace tessera::stack
