#include "server/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace tessera {
namespace {

TEST(WorkerPool, WhatWasPostedIsDoneBeforeJoinReturns) {
  std::atomic<int> done = 0;
  WorkerPool pool(3);
  for (int i = 0; i < 500; ++i) pool.post([&] { ++done; });
  pool.join();
  EXPECT_EQ(done, 500);
}

TEST(WorkerPool, OneThreadKeepsTheOrder) {
  std::vector<int> order;  // one thread writes, and join() is behind it
  WorkerPool pool(1);
  for (int i = 0; i < 100; ++i) pool.post([&order, i] { order.push_back(i); });
  pool.join();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(order.size(), 100U);
}

TEST(WorkerPool, AfterTheEndTasksAreDropped) {
  std::atomic<int> done = 0;
  WorkerPool pool(0);  // at least one thread all the same
  pool.post([&] { ++done; });
  pool.join();
  pool.post([&] { ++done; });
  pool.join();
  EXPECT_EQ(done, 1);
}

TEST(WorkerPool, TasksMayPostTasks) {
  std::atomic<bool> second = false;
  WorkerPool pool(2);
  std::atomic<bool> posted = false;
  pool.post([&] {
    pool.post([&] { second = true; });
    posted = true;
  });
  while (!posted) std::this_thread::yield();
  pool.join();
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace tessera
