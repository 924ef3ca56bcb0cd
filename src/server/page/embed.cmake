# Puts the page's files together as one document and writes it as C++ with the policy that names what may run in it.
#
#   cmake -DPAGE=FOLDER -DSCRIPTS="a.js b.js" -DOUT=page.cpp -P embed.cmake

# The first 256 bits as base64, which is how a Content-Security-Policy spells a hash.
function(base64_of_sha256 out text)
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 hex "${text}")
  set(coded "")
  foreach(at RANGE 0 63 3)  # three hexadecimal digits are two of base64; the last one stands alone
    string(SUBSTRING "${hex}" ${at} 3 part)
    if(at EQUAL 63)
      string(APPEND part "00")
    endif()
    math(EXPR high "0x${part} >> 6")
    math(EXPR low "0x${part} & 63")
    string(SUBSTRING "${digits}" ${high} 1 digit)
    string(APPEND coded "${digit}")
    if(NOT at EQUAL 63)
      string(SUBSTRING "${digits}" ${low} 1 digit)
      string(APPEND coded "${digit}")
    endif()
  endforeach()
  set(${out} "'sha256-${coded}='" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}/page.html" document)
file(READ "${PAGE}/page.css" css)
separate_arguments(SCRIPTS)
set(script "")
foreach(name ${SCRIPTS})
  file(READ "${PAGE}/${name}" text)
  string(APPEND script "${text}")
endforeach()

base64_of_sha256(css_hash "${css}")
base64_of_sha256(script_hash "${script}")
string(REPLACE "@CSS@" "${css}" document "${document}")
string(REPLACE "@SCRIPT@" "${script}" document "${document}")

# Trusted Types: the browser itself refuses whatever would turn text into markup.
set(policy "default-src 'none'; script-src ${script_hash}; style-src ${css_hash}; connect-src 'self'; img-src data:; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")

file(WRITE "${OUT}.new" "// Written by src/server/page/embed.cmake from the files beside it.
#include \"server/page/page.h\"

namespace tessera {

std::string_view page_document() { return R\"TESSERA(${document})TESSERA\"; }
std::string_view page_policy() { return R\"TESSERA(${policy})TESSERA\"; }

}  // namespace tessera
")
file(RENAME "${OUT}.new" "${OUT}")
