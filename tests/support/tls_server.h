// TLS for a RawServer's connections, with a certificate made on the spot for one name.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <string>

namespace sandglass::tests::support {

/// A self-signed certificate: its own authority.
class TlsIdentity {
 public:
  explicit TlsIdentity(const std::string& name) {
    key_ = EVP_EC_gen("P-256");
    certificate_ = X509_new();
    X509_set_version(certificate_, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_pubkey(certificate_, key_);
    X509_NAME* subject = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(certificate_, subject);
    add_extension(NID_basic_constraints, "critical,CA:TRUE");
    add_extension(NID_subject_alt_name, "DNS:" + name);
    X509_sign(certificate_, key_, EVP_sha256());
    context_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context_, certificate_);
    SSL_CTX_use_PrivateKey(context_, key_);
  }
  ~TlsIdentity() {
    SSL_CTX_free(context_);
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  void write_certificate(const std::string& path) const {
    BIO* memory = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(memory, certificate_);
    char* bytes = nullptr;
    const long length = BIO_get_mem_data(memory, &bytes);
    std::ofstream(path) << std::string(bytes, static_cast<std::size_t>(length));
    BIO_free(memory);
  }
  SSL_CTX* context() const { return context_; }

 private:
  void add_extension(int kind, const std::string& value) {
    X509V3_CTX about;
    X509V3_set_ctx(&about, certificate_, certificate_, nullptr, nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &about, kind, value.c_str());
    X509_add_ext(certificate_, extension, -1);
    X509_EXTENSION_free(extension);
  }

  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
  SSL_CTX* context_ = nullptr;
};

/// Takes one request and answers it. Returns what the client sent inside TLS; empty when the handshake
/// failed.
inline std::string serve_one_over_tls(const TlsIdentity& identity, int fd, const std::string& answer) {
  SSL* ssl = SSL_new(identity.context());
  SSL_set_fd(ssl, fd);
  std::string got;
  if (SSL_accept(ssl) == 1) {
    char bytes[4096];
    while (got.find("\r\n\r\n") == std::string::npos) {
      const int count = SSL_read(ssl, bytes, sizeof bytes);
      if (count <= 0) break;
      got.append(bytes, static_cast<std::size_t>(count));
    }
    if (!got.empty()) SSL_write(ssl, answer.data(), static_cast<int>(answer.size()));
    SSL_shutdown(ssl);
  }
  SSL_free(ssl);
  return got;
}

}  // namespace sandglass::tests::support
