// One thread with an owner.
#pragma once

#include <functional>
#include <memory>

namespace tessera {

/// A thread of its own that runs `work` and ends with its object; for loading data ahead of the
/// step. What `work` throws comes out of join().
class Worker {
 public:
  explicit Worker(std::function<void()> work);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void join();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
