// The page that a server shows at "/": chat, and what the server is doing. One document with its style and its
// script inside, put together from the files in this folder when the program is built.
#pragma once

#include <string_view>

namespace tessera {

std::string_view page_document();
// Its Content-Security-Policy: nothing runs or styles but what the document came with, nobody is talked to but
// the server.
std::string_view page_policy();

}  // namespace tessera
