// `tessera replay`: requests that a server recorded, asked again of the same or of another one.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera {

struct ReplayFlags {
  std::string records;  // a file, or a folder of them
  std::string url = "http://127.0.0.1:8000";
  std::string api_key;
  double timeout_s = 600;  // of one request
  int repeat = 1;
  std::string timing = "none";  // or "recorded"
};

void declare_replay_flags(CLI::App& app, ReplayFlags& flags);
int run_replay(const ReplayFlags& flags);  // exit status: 0 as recorded, 1 not, 2 wrong usage

}  // namespace tessera
