-- What the interface shows of a form and of a listing, as JSON text: a page is then read in one column, and passed on
-- as it is. Generated, so that it cannot be out of step with the columns. To change what is shown is to replace the
-- function and to add the column anew, which writes the table anew. The bodies are bound to what they call, for a dump is
-- restored without a search path.

CREATE FUNCTION "json_instant"("at" TIMESTAMPTZ) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(to_char(at AT TIME ZONE 'UTC', '"\""YYYY-MM-DD"T"HH24:MI:SS.MS"Z\""'), 'null');

-- What is not public yet, is UNKNOWN.
CREATE FUNCTION "form_json"(
    "id" UUID, "listing_id" UUID, "public_id" TEXT, "status" TEXT, "check_in_date" TIMESTAMPTZ, "check_out_date" TIMESTAMPTZ,
    "number_of_guests" INTEGER, "number_of_vehicles" INTEGER, "number_of_pets" INTEGER, "created_at" TIMESTAMPTZ
) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN concat(
        '{"id":"', id, '","listingId":"', listing_id, '","publicId":', to_json(public_id), ',"status":"',
        CASE WHEN status IN (
            'SENT', 'COMPLETED', 'ACCEPTED', 'REJECTED', 'VALIDATED', 'INVALIDATED', 'CHECKED_OUT'
        ) THEN status ELSE 'UNKNOWN' END,
        '","checkInDate":', json_instant(check_in_date), ',"checkOutDate":', json_instant(check_out_date),
        ',"numberOfGuests":', coalesce(number_of_guests::text, 'null'),
        ',"numberOfVehicles":', coalesce(number_of_vehicles::text, 'null'),
        ',"numberOfPets":', coalesce(number_of_pets::text, 'null'),
        ',"createdAt":', json_instant(created_at), '}');

CREATE FUNCTION "listing_json"(
    "id" UUID, "public_id" TEXT, "title" TEXT, "address" TEXT, "city" TEXT, "country" TEXT, "zip_code" TEXT,
    "district" TEXT, "timezone" TEXT, "active" BOOLEAN, "max_people_in_listing" INTEGER, "max_vehicles" INTEGER,
    "allow_pets" BOOLEAN, "created_at" TIMESTAMPTZ
) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN concat(
        '{"id":"', id, '","publicId":', to_json(public_id), ',"title":', to_json(title), ',"address":', to_json(address),
        ',"city":', to_json(city), ',"country":', to_json(country), ',"zipCode":', to_json(zip_code),
        ',"district":', coalesce(to_json(district)::text, 'null'), ',"timezone":', to_json(timezone),
        ',"active":', active::text, ',"maxPeopleInListing":', coalesce(max_people_in_listing::text, 'null'),
        ',"maxVehicles":', coalesce(max_vehicles::text, 'null'), ',"allowPets":', coalesce(allow_pets::text, 'null'),
        ',"createdAt":', json_instant(created_at), '}');

-- AlterTable
ALTER TABLE "forms" ADD COLUMN "json" TEXT NOT NULL GENERATED ALWAYS AS (form_json(
    id, listing_id, public_id, status, check_in_date, check_out_date, number_of_guests, number_of_vehicles, number_of_pets,
    created_at
)) STORED;

-- AlterTable
ALTER TABLE "listings" ADD COLUMN "json" TEXT NOT NULL GENERATED ALWAYS AS (listing_json(
    id, public_id, title, address, city, country, zip_code, district, timezone, active, max_people_in_listing,
    max_vehicles, allow_pets, created_at
)) STORED;
