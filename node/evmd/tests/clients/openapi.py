"""Checks that the document at a URL is valid OpenAPI, with every reference resolved."""

import json
import sys
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator

with urllib.request.urlopen(sys.argv[1]) as response:
    document = json.load(response)
errors = [f"{list(error.absolute_path)}: {error.message}" for error in OpenAPIV31SpecValidator(document).iter_errors()]
if errors:
    sys.exit("\n".join(errors))
print("ok")
