/* Places of the dispatch table (operator and dispatch key) where the override puts kernels.
 *
 * Python's kernels, and access from Python to the kernels that ours replace, are made at the first request: registering
 * all of them takes milliseconds, and most programs need few or none. Both are kernels of operators of our own,
 * "autosparse::SparseCsrCPU_mm" and "autosparse::stock_SparseCsrCPU_mm", so that no other thread reads the tables that
 * change.
 */
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace asp_torch {

/* Return an operator by its namespace and name ("mm.out"). */
inline c10::OperatorHandle operator_of(const std::string &space, const std::string &name)
{
    const size_t dot = name.find('.');
    const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
    return c10::Dispatcher::singleton().findSchemaOrThrow((space + "::" + name.substr(0, dot)).c_str(),
                                                          overload.c_str());
}

inline std::string own_name(const std::string &name, const std::string &key) { return key + "_" + name; }
inline std::string stock_name(const std::string &name, const std::string &key) { return "stock_" + key + "_" + name; }

/* Kernel in Python, which Python registers when it is first called. */
class LateKernel {
  public:
    LateKernel(std::string name, std::string key) : name_(std::move(name)), key_(std::move(key)) {}

    void callBoxed(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
    {
        const auto *found = found_.load(std::memory_order_acquire);
        (found ? *found : load()).callBoxed(op, keys, stack);
    }

    /* Request the kernel again at the next call. */
    void forget() { found_ = nullptr; }

  private:
    const c10::SafeKernelFunction &load()
    {
        static const auto request = operator_of("autosparse", "load");
        torch::jit::Stack names{name_, key_};
        request.callBoxed(&names);
        const auto op = operator_of("autosparse", own_name(name_, key_));
        auto made = std::make_unique<c10::SafeKernelFunction>(
            op.getComputedKernelForDispatchKey(c10::parseDispatchKey(key_)));
        const std::lock_guard<std::mutex> guard(lock_);
        kept_.push_back(std::move(made));
        found_.store(kept_.back().get(), std::memory_order_release);
        return *kept_.back();
    }

    const std::string name_, key_;
    std::atomic<const c10::SafeKernelFunction *> found_{nullptr};
    std::vector<std::unique_ptr<c10::SafeKernelFunction>> kept_; /* also older ones, which another thread may call */
    std::mutex lock_;
};

/* A kernel of PyTorch (or of another library), the registration of ours over it, and the kernel in Python. */
struct Place {
    Place(const std::string &name, const std::string &key) : name(name), key(key), python(name, key) {}

    const std::string name, key;
    std::optional<c10::SafeKernelFunction> stock;
    std::optional<c10::RegistrationHandleRAII> registration;
    LateKernel python;
    bool is_defined = false, has_stock = false; /* the operators, the kernel of the second one */
};
inline auto &places = *new std::map<std::pair<std::string, std::string>, Place>; /* not freed: used until the end */

/* Kernel that calls the replaced kernel of a place. */
class StockKernel final : public c10::OperatorKernel {
  public:
    explicit StockKernel(const Place &place) : place_(place), op_(operator_of("aten", place.name)) {}

    void operator()(const c10::OperatorHandle &, c10::DispatchKeySet keys, torch::jit::Stack *stack)
    {
        place_.stock.value().callBoxed(op_, keys, stack);
    }

  private:
    const Place &place_;
    const c10::OperatorHandle op_;
};

/* Define the two operators of a place, and register the kernel of the second one where PyTorch has a kernel. */
inline void define(Place &place)
{
    static auto &kept = *new std::vector<c10::RegistrationHandleRAII>; /* not freed, as `places` */
    auto &dispatcher = c10::Dispatcher::singleton();
    if (!place.is_defined) {
        const auto &schema = operator_of("aten", place.name).schema();
        for (const auto &name : {own_name(place.name, place.key), stock_name(place.name, place.key)})
            kept.push_back(dispatcher.registerDef(
                schema.cloneWithName("autosparse::" + name.substr(0, name.find('.')), schema.overload_name()),
                "autosparse"));
        place.is_defined = true;
    }
    if (!place.stock || place.has_stock) return;
    kept.push_back(dispatcher.registerImpl(
        operator_of("autosparse", stock_name(place.name, place.key)).operator_name(), c10::parseDispatchKey(place.key),
        c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<StockKernel>(place)), std::nullopt, nullptr,
        "autosparse"));
    place.has_stock = true;
}

}  // namespace asp_torch
