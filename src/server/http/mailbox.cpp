#include "server/http/mailbox.h"

#include <spdlog/spdlog.h>

#include "server/http/failure.h"

namespace tessera::http {

void Mailbox::mail(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  tasks_.push_back(std::move(task));
  if (tasks_.size() == 1) wake_();
}

void Mailbox::deliver() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) {
    try {
      task();
    } catch (...) {  // the tasks behind it belong to other requests
      spdlog::error("a task of an io thread failed: {}", describe_failure());
    }
  }
}

void Mailbox::close() {
  std::vector<std::function<void()>> dropped;  // destroyed after the lock: tasks may own what mails
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
}

}  // namespace tessera::http
