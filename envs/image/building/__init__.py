# SPDX-License-Identifier: Apache-2.0
"""How build.py makes the image: its modules, of which each imports only such as stand above it here.

    messages      what is said to whoever builds
    places        where things are, in the repository and in the image
    digests       the digest of bytes, and JSON to the byte
    tars          tar files to the byte, and what one has that another has not
    layers        layers, by their digests
    machine       what the machine must be and have
    oci           layers as an archive
    private       scripts in namespaces of their own, in memory
    cache         layers that take long to make, kept
    debian        Debian with its packages, such a layer
    venv          Python's packages, another one
    releases      a release of XRootD, another one
    byte_code     what the image's Python makes of sources
    repository    this repository, in a layer that is made each time
    image         the image of these layers

Debian's own Python runs them: they need its standard library, and of the package what needs no more either.
"""
