// A program that this process starts.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tessera {

/// How a program is started, beside its words.
struct ChildOptions {
  std::vector<std::string> environment = {};  // "NAME=VALUE", where this process has no NAME
  // SIGTERM, SIGINT and SIGHUP do not reach the program, unless it unblocks them
  bool blocks_stop_signals = false;
};

/// A program in a process group of its own, so that Ctrl-C reaches only this process, with an empty
/// standard input, whose standard output can be read.
class ChildProcess {
 public:
  /// Starts `words[0]`, found on PATH, with the other words as its arguments.
  ///   throws  UserError (66) when it cannot be started
  explicit ChildProcess(const std::vector<std::string>& words, const ChildOptions& options = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) const;

  /// Appends the new output of the program, and waits a short time when there is none yet.
  ///   returns  false when the program has closed its output
  bool read_output(std::string& output) const;

  /// Waits for its end.
  ///   returns  its exit code, or 128 + the signal that ended it
  int wait() const;

 private:
  bool has_ended() const;

  pid_t id_ = 0;
  int output_ = -1;
};

}  // namespace tessera
