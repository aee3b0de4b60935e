// One thread a rank. It knows nothing of what they do.
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

/// Threads that sleep until a job comes and do it each for its own index, job after job: none waits
/// for the others to begin the next one.
///
///   threads  call begin(), end() and run() from one thread
///   memory   allocates nothing
class Crew {
 public:
  using Job = std::function<void(int index)>;
  static constexpr size_t kMostJobs = 2;  // begun and not ended

  explicit Crew(int size);
  /// Every job that was begun is done first.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Every thread will run job(its index), after the jobs begun before.
  ///   requires  fewer than kMostJobs are begun and not ended; `job` stays until its end
  void begin(const Job& job);
  /// Waits until the oldest job that was begun and not ended is done by all.  throws  what it threw
  /// on the lowest index
  void end();
  /// Both at once.  requires  every job that was begun is ended
  void run(const Job& job);

 private:
  struct Begun {
    const Job* job = nullptr;
    int busy = 0;  // threads that have not done it
    std::vector<std::exception_ptr> errors;
  };

  void work(int index);
  void dismiss();
  Begun& begun(uint64_t number) { return jobs_[number % kMostJobs]; }

  std::mutex mutex_;
  std::condition_variable started_, done_;
  std::array<Begun, kMostJobs> jobs_;
  uint64_t begun_ = 0, ended_ = 0;  // jobs so far
  bool dismissed_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera
