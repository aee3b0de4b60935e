// The log of one process of `tessera launch --log-dir`: a copy of what the process writes.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <streambuf>
#include <vector>

namespace tessera {

/// During its lifetime std::cout and std::cerr write into DIR/rank-NNNNN.log, and into the streams
/// of the process as well while these are shown.
class RankLog {
 public:
  ///   shows   does the process also write into its streams? The leader does.
  ///   throws  UserError (1) when the file cannot be written
  RankLog(const std::filesystem::path& folder, int rank, bool shows);
  ~RankLog();
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;

  /// Shows what is written from now on.
  void show();

 private:
  class Copy;

  std::ofstream file_;
  std::vector<std::unique_ptr<Copy>> copies_;  // of std::cout and std::cerr
};

}  // namespace tessera
