// Shows the progress of steps: a bar on a terminal, some lines elsewhere. It is always on standard
// error, because results are on standard output.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/units.h"

namespace tessera {

/// The progress of a run.
struct ProgressState {
  int64_t done = 0;   // steps
  int64_t steps = 0;  // of the whole run
  double loss = 0;
  double grad_norm = 0;        // 0: unknown, not shown
  double per_second = 0;       // 0: unknown, not shown
  std::string unit = "token";  // of per_second
  Seconds left{0};
};

/// The line of a step: "step: 10  loss: 4.1234  grad_norm: 1.2345  tokens/s: 177,123  time left: 12
/// s". Scripts may search for the keys.
std::string step_line(const ProgressState& state);
/// The bar of a step: "  120/300 [########------------]  loss 2.1234  177,123 tokens/s  12 s left".
std::string bar_line(const ProgressState& state);
/// Progress within steps: "step: 0.4 of 3  time left: 20 s".
std::string within_line(double done, int64_t steps, Seconds left);
/// Is the step one of about ten that get a line? The first and the last always do.
bool is_worth_a_line(int64_t done, int64_t steps);

/// The progress of one run of `steps` steps.
class Progress {
 public:
  enum class Form { kBar, kLines };
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;
  /// A bar when standard error is a terminal.
  static Form form_of_terminal();

  /// `unit` is the unit that steps count: "token", "image", "pixel"; `now` reads the clock.
  explicit Progress(int64_t steps, std::string unit = "token", Form form = form_of_terminal(),
                    Now now = Clock::now);
  /// Removes the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Call it after step number `done`, counted from 1, which processed `units`. Lines are at most
  /// ten seconds and one step apart; the speed of a line is that since the line before.
  void step(int64_t done, double loss, double grad_norm, int64_t units);
  /// Call it within the steps of a loop without a loss, with the steps done so far: 1.5 is half of
  /// the second one. Lines are some seconds apart.
  void within(double done);
  /// The time that is left by the progress of within() since its first call with progress, which is
  /// after the compiler; 0 in the second after that, and at the end.
  Seconds left() const { return left_; }
  /// Prints a line between the steps.
  void note(const std::string& line);

 private:
  /// A moment of a run, and the units that were processed before it.
  struct Mark {
    Clock::time_point time;
    int64_t units = 0;
  };

  double speed_since(const Mark& mark, Clock::time_point now) const;
  void show_bar(const std::string& line, bool is_last);
  void erase_bar();

  const int64_t steps_;
  const std::string unit_;
  const Form form_;
  const Now now_;
  bool bar_shown_ = false;
  /// The first step binds and warms up, so the speed is counted from its end.
  Mark first_end_;
  Mark last_line_;
  Clock::time_point last_shown_;
  const Clock::time_point begin_ = now_();
  Seconds left_{0};
  double first_within_ = 0;  // the first progress of within()
  Clock::time_point first_within_time_;
  int64_t first_done_ = 0;
  int64_t units_ = 0;  // of all steps but the first
};

/// The progress of evaluations, which have lines ten seconds apart: "validation: batch 40 of
/// 205  time left: 2 min". Short ones have none.
class EvaluationProgress {
 public:
  explicit EvaluationProgress(Progress::Now now = Progress::Clock::now);

  /// Call it after batch number `done`, counted from 1.
  void batch(int64_t done, int64_t batches);

 private:
  Progress::Now now_;
  Progress::Clock::time_point first_end_;  // of batch 1
  Progress::Clock::time_point last_shown_;
};

}  // namespace tessera
