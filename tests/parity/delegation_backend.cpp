// A backend that runs anything: it sets its outputs to zero, and logs an event for each of its ops. A blob is the
// number of outputs and the ids of the ops, in decimals that end with semicolons.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/event_tracer_hooks_delegate.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace et = executorch::runtime;

struct Blob {
  size_t outputs = 0;
  std::vector<et::DelegateDebugIntId> ids;
};

class OtherBackend final : public et::BackendInterface {
 public:
  bool is_available() const override { return true; }

  et::Result<et::DelegateHandle*> init(
      et::BackendInitContext&, et::FreeableBuffer* processed, et::ArrayRef<et::CompileSpec>) const override {
    std::istringstream text(std::string(static_cast<const char*>(processed->data()), processed->size()));
    auto* blob = new Blob();
    std::string number;
    std::getline(text, number, ';');
    blob->outputs = std::stoul(number);
    while (std::getline(text, number, ';')) blob->ids.push_back(std::stoi(number));
    return static_cast<et::DelegateHandle*>(blob);
  }

  et::Error execute(
      et::BackendExecutionContext& context, et::DelegateHandle* handle, et::Span<et::EValue*> arguments) const override {
    const auto* blob = static_cast<const Blob*>(handle);
    for (auto id : blob->ids) {
      auto entry = et::event_tracer_start_profiling_delegate(context.event_tracer(), nullptr, id);
      for (volatile int spent = 0; spent < 1000; spent = spent + 1) {
      }
      et::event_tracer_end_profiling_delegate(context.event_tracer(), entry);
    }
    for (size_t at = arguments.size() - blob->outputs; at < arguments.size(); ++at) {
      if (arguments[at]->isTensor()) {
        auto tensor = arguments[at]->toTensor();
        std::memset(tensor.mutable_data_ptr(), 0, tensor.nbytes());
      }
    }
    return et::Error::Ok;
  }

  void destroy(et::DelegateHandle* handle) const override { delete static_cast<Blob*>(handle); }
};

OtherBackend other;
const auto registered = et::register_backend({"OtherBackend", &other});

} // namespace
