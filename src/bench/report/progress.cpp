#include "bench/report/progress.h"

namespace tessera::bench {

void Progress::clear() {
  if (out_ == nullptr || shown_ == 0) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  shown_ = 0;
}

void Progress::now(const std::string& line) {
  if (out_ == nullptr || !is_terminal_) return;
  // A line that is wider than the terminal cannot be taken back.
  const std::string cut = line.substr(0, 100);
  std::fprintf(out_, "\r%s\x1b[K", cut.c_str());
  std::fflush(out_);
  shown_ = cut.size();
}

void Progress::done(const std::string& line) {
  if (out_ == nullptr) return;
  clear();
  std::fprintf(out_, "%s\n", line.c_str());
  std::fflush(out_);
}

}  // namespace tessera::bench
