// tessera-stack: clocks and streams; everything else is src/stack/command/.
#include <unistd.h>

#include <chrono>
#include <clocale>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <iostream>
#include <thread>

#include "stack/command/command_line.h"

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // libarchive judges names by the locale
  std::ios::sync_with_stdio(false);
  const char* token = std::getenv("GITHUB_TOKEN");
  try {
    return tessera::stack::run_command_line(
        {.arguments = {argv + 1, argv + argc},
         .out = std::cout,
         .err = std::cerr,
         .err_is_terminal = isatty(STDERR_FILENO) == 1,
         .now =
             [] {
               const std::time_t when = std::time(nullptr);
               std::tm utc{};
               gmtime_r(&when, &utc);
               char text[32];
               std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
               return std::string(text);
             },
         .seconds =
             [] {
               return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
                   .count();
             },
         .wait = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); },
         .github_token = token == nullptr ? "" : token});
  } catch (const std::exception& lost) {
    std::cerr << "error: " << lost.what() << ". This is a bug of tessera-stack.\n";
    return 5;
  }
}
