#include "cluster/cluster/internal/import/xml.h"

#include <expat.h>

#include <exception>
#include <memory>

#include "base/error.h"

namespace tessera {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kBlock = 1 << 20;  // bytes of one call of the parser, which counts them as int

/// One run of the parser. Exceptions do not pass its C functions: they are kept.
struct Run {
  XML_Parser parser = nullptr;
  const std::function<void(const XmlElement&)>* open = nullptr;
  const std::function<void(const std::string&)>* close = nullptr;
  std::string file;
  int depth = 0;
  std::exception_ptr failure = nullptr;

  int line() const { return static_cast<int>(XML_GetCurrentLineNumber(parser)); }

  template <typename Call>
  void guarded(const Call& call) {
    if (failure) return;
    try {
      call();
    } catch (...) {
      failure = std::current_exception();
      XML_StopParser(parser, XML_FALSE);
    }
  }

  [[noreturn]] void refuse(const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError(file + ":" + std::to_string(line()) + ": " + what, why, fix,
                    ExitCode::kBadConfig);
  }
};

void on_open(void* data, const XML_Char* name, const XML_Char** attributes) {
  Run& run = *static_cast<Run*>(data);
  run.guarded([&] {
    if (++run.depth > kMaxDepth)
      run.refuse("the elements are deeper than " + std::to_string(kMaxDepth),
                 "a topology has a few levels", "check that the file is a topology");
    XmlElement element{name, {}, run.line()};
    for (; attributes[0] != nullptr; attributes += 2)
      element.attributes[attributes[0]] = attributes[1];
    (*run.open)(element);
  });
}

void on_close(void* data, const XML_Char* name) {
  Run& run = *static_cast<Run*>(data);
  run.guarded([&] {
    --run.depth;
    (*run.close)(name);
  });
}

void on_document_type(void* data, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  Run& run = *static_cast<Run*>(data);
  run.guarded([&] {
    run.refuse("the file has a document type", "it could name other files and entities",
               "remove the line that begins with <!DOCTYPE");
  });
}

}  // namespace

std::string XmlElement::attribute(const std::string& key) const {
  const auto found = attributes.find(key);
  return found == attributes.end() ? "" : found->second;
}

void read_xml(std::string_view text, const std::string& file,
              const std::function<void(const XmlElement&)>& open,
              const std::function<void(const std::string& name)>& close) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
      XML_ParserCreate(nullptr), &XML_ParserFree);
  ensure(parser != nullptr, "a parser of XML is there");
  Run run{parser.get(), &open, &close, file};
  XML_SetUserData(run.parser, &run);
  XML_SetElementHandler(run.parser, on_open, on_close);
  XML_SetStartDoctypeDeclHandler(run.parser, on_document_type);
  for (bool is_last = false; !is_last;) {
    const std::string_view block = text.substr(0, kBlock);
    text.remove_prefix(block.size());
    is_last = text.empty();
    const XML_Status status = XML_Parse(run.parser, block.data(), static_cast<int>(block.size()),
                                        is_last ? XML_TRUE : XML_FALSE);
    if (run.failure) std::rethrow_exception(run.failure);
    if (status == XML_STATUS_OK) continue;
    const XML_Error code = XML_GetErrorCode(run.parser);
    run.refuse(std::string("the file is no XML: ") + XML_ErrorString(code),
               "a topology of NCCL is an XML document", "write it anew with NCCL_TOPO_DUMP_FILE");
  }
}

}  // namespace tessera
