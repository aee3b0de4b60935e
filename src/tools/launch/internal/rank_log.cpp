#include "tools/launch/internal/rank_log.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <iostream>
#include <system_error>

#include "base/error.h"
#include "base/files/open_file.h"

namespace tessera {

/// Writes into the file, and into the stream that it replaces when that is shown.
class RankLog::Copy : public std::streambuf {
 public:
  Copy(std::ostream& stream, std::ostream& file, bool shows)
      : stream_(stream), before_(stream.rdbuf(this)), file_(file), shows_(shows) {}
  ~Copy() override { stream_.rdbuf(before_); }
  void show() { shows_ = true; }

 protected:
  int_type overflow(int_type character) override {
    const char text = traits_type::to_char_type(character);
    return xsputn(&text, 1) == 1 ? character : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    file_.write(text, count);
    return shows_ ? before_->sputn(text, count) : count;
  }
  int sync() override {
    file_.flush();
    return shows_ ? before_->pubsync() : 0;
  }

 private:
  std::ostream& stream_;
  std::streambuf* before_;
  std::ostream& file_;
  bool shows_;
};

RankLog::RankLog(const std::filesystem::path& folder, int rank, bool shows) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto path = folder / fmt::format("rank-{:05}.log", rank);
  if (!error) open_to_write(path, O_APPEND);  // refuses a pipe, for whose reader it would wait
  file_.open(path, std::ios::app);
  if (error || !file_)
    throw UserError("cannot write the log '" + path.string() + "'",
                    error ? error.message() : "the file cannot be opened",
                    "check that the folder may be written, or choose another --log-dir");
  for (std::ostream* stream : {&std::cout, &std::cerr})
    copies_.push_back(std::make_unique<Copy>(*stream, file_, shows));
}

RankLog::~RankLog() = default;

void RankLog::show() {
  for (const auto& copy : copies_) copy->show();
}

}  // namespace tessera
